def completeness(text, language, profile): return 0.0
def expects_digits(text, language): return False
