def kind_of(text, language, spoken):
    return "words" if text else "nothing"
