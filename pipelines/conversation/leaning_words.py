"""Words that lean on what comes after them, in the languages whose turns are read for sense.

A table for ``completeness``: lists are of single words, phrases stand between semicolons.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Leaning:
    """What a language's turns end with, and what that says.

    Never at an end: articles, conjunctions, prepositions and subjects (``open``). Seldom:
    auxiliaries, adverbs of degree, particles that may belong to a verb (``lean``). ``fillers``
    and ``holds`` ask for time. ``begun`` ends in phrases that announce more, ``closed`` in ones
    that are whole although their last word leans. ``answers`` are turns by themselves. ``asks``
    begins questions; a clause that begins with one of ``clauses`` waits for another; ``last``
    stands before the last item of a list; ``strands`` are those of ``open`` that a question may
    end with.
    """

    open: frozenset[str]
    lean: frozenset[str]
    fillers: frozenset[str]
    begun: tuple[str, ...]
    closed: tuple[str, ...]
    holds: tuple[str, ...]
    answers: frozenset[str]
    asks: frozenset[str]
    clauses: frozenset[str]
    last: frozenset[str]
    strands: frozenset[str]


def _leaning(**lists: str) -> Leaning:
    def words(name: str) -> frozenset[str]:
        return frozenset(lists.get(name, "").split())

    def phrases(name: str) -> tuple[str, ...]:
        return tuple(phrase.strip() for phrase in lists[name].split(";"))

    return Leaning(
        open=words("open"),
        lean=words("lean"),
        fillers=words("fillers"),
        begun=phrases("begun"),
        closed=phrases("closed"),
        holds=phrases("holds"),
        answers=frozenset(phrases("answers")),
        asks=words("asks"),
        clauses=words("clauses"),
        last=words("last"),
        strands=words("strands"),
    )


LEANING: Final[Mapping[str, Leaning]] = {
    "en": _leaning(
        open="a an the my your its our their every and or but nor because if although though "
        "unless until whereas whether since while of from at into onto upon toward towards "
        "between among via per than as with to for i we he she they who's what's where's i'm i'll "
        "i'd i've we're we'll you're they're it's there's that's he's she's don't can't won't "
        "didn't isn't plus and/or",
        lean="so that which who when where is are was were be been being am has have had do does "
        "did can could will would shall should may might must in on by about over under through "
        "without near during before after very really quite rather too almost just only even also "
        "still not never always maybe perhaps like then called named want need think said wants "
        "needs let's let got get going gonna wanna trying looking wondering ask feels two-thirds "
        "another any some no more most each this these those her his",
        fillers="um uh er erm hmm uhm mm ah eh well",
        begun="and then; my number is; my name is; the number is; the address is; my address is; "
        "i want to; i would like; i'd like to; i need to; in order to; such as; for example; for "
        "instance; the thing is; you know; i mean; because of; as well as; kind of; sort of; how "
        "about; what about; first of all; instead of; due to; out of; the problem is; i was "
        "wondering; let's say; so i; and i; but i; a lot of; going to; able to; so that",
        closed="where it is; what it is; how it is; who it is; when it is; i think so; i hope so; "
        "i guess so; i believe so; i suppose so; i don't think so; and so on; come in; go on; "
        "hold on to it; that's it; of course; what for; like that; like this; do that; try that; "
        "want that; need that; say that; yes it is; no it isn't; yes i am; yes i do; yes i can; "
        "yes i have; yes i did; yes i will; yes please do; i do; i am; i can; i have; i did; i "
        "will; no i don't; no i can't; no i didn't; no i won't; me too; you too; is that; turn it "
        "on; turn that on; log in; sign in; check in; move on; put me through; not that i know "
        "of; something to eat; someone to talk to; thank you very much; not really; no more; some "
        "more; any more; i don't; i can't; i didn't; i won't; the other one; not yet; once more; "
        "any other",
        holds="hold on; hang on; one moment; one second; just a moment; just a second; a minute; "
        "a moment; a second; a sec; let me see; let me check; let me look; let me think; wait; "
        "let me get it; let me find it; bear with me",
        answers="yes; no; yeah; yep; nope; okay; ok; sure; right; correct; thanks; thank you; "
        "please; yes please; no thanks; no thank you; goodbye; bye; hello; hi; that's it; that's "
        "all; that's right; exactly; fine; stop; cancel; help; repeat; nothing; nothing else; of "
        "course; never mind; absolutely; great; perfect; that is all; that is correct; sounds "
        "good; all right; alright; not really; maybe; i don't know; i think so",
        asks="what who when where why how which whose is are do does did can could will would may "
        "shall should was were have has am isn't aren't don't doesn't didn't can't couldn't won't",
        clauses="if when because although though unless since while whereas until after before "
        "once whenever",
        last="and or plus",
        strands="for with to from of at as",
    ),
    "de": _leaning(
        open="der die das den dem des ein eine einen einem einer eines mein meine meinen meinem "
        "dein ihr ihre ihren unser unsere und oder aber denn sondern weil dass wenn ob obwohl "
        "damit bevor nachdem während falls sobald von aus bei nach seit für gegen ohne zwischen "
        "wegen ich wir er im am zum zur beim vom ins ans als wie sowie bis kein keine keinen "
        "dieser diese diesen",
        lean="mit in auf an zu um über unter vor hinter neben durch ist sind war bin hat habe "
        "haben wird werde kann können muss müssen soll will möchte würde sehr ganz ziemlich fast "
        "nur auch noch schon nicht dann also dies man sie es heißt",
        fillers="äh ähm hm hmm öh tja naja",
        begun="und dann; meine nummer ist; mein name ist; meine adresse ist; ich möchte; ich "
        "will; ich hätte gern; ich brauche; zum beispiel; das heißt; das problem ist; sowohl; "
        "entweder; wie zum beispiel; ich wollte fragen; es gibt; ich meine; sagen wir",
        closed="ja ist es; ja das ist es; ich auch; mir auch; das ist es; ich glaube schon; noch "
        "nicht; so ist es; ich denke schon; mach zu; mach auf; was noch; ich bin es; wie bitte; "
        "leider nicht; lieber nicht; weiß ich nicht; das weiß ich nicht; ich weiß nicht",
        holds="moment; augenblick; sekunde; warten sie; warte; mal sehen; ich schaue nach; ich "
        "sehe nach; moment mal; ich muss nachsehen",
        answers="ja; nein; doch; okay; ok; genau; richtig; stimmt; danke; danke schön; vielen "
        "dank; bitte; ja bitte; nein danke; tschüss; auf wiederhören; hallo; das war's; das wäre "
        "alles; nichts; stopp; klar; natürlich; gern; gerne; alles klar; das ist alles",
        asks="was wer wann wo warum wie welche welcher welches wieso weshalb woher wohin ist sind "
        "haben hat können kann könnten wird würden darf gibt",
        clauses="wenn weil obwohl falls sobald während nachdem bevor als da",
        last="und oder sowie",
    ),
    "fr": _leaning(
        open="le la les l' un une des du de d' au aux mon ma mes ton ta tes son sa ses notre nos "
        "votre vos leur leurs ce cet cette ces et ou mais donc car ni que qu' qui quand si parce "
        "puisque lorsque comme dans chez par entre vers sans je j' tu il nous on ils elles ne n' "
        "se me à c'est jusqu' quoiqu' dès pour",
        lean="avec sur sous en contre depuis pendant après avant est sont suis ai a avons avez "
        "ont était peux peut veux veut voudrais dois doit très assez presque seulement aussi "
        "encore pas alors plutôt elle vous dont où",
        fillers="euh heu hum hem bah ben",
        begun="et puis; et après; mon numéro est; mon numéro c'est; mon nom est; je m'appelle; "
        "mon adresse est; je voudrais; j'aimerais; je veux; j'ai besoin; par exemple; c'est à "
        "dire; parce que; le problème c'est; il y a; est ce que; afin de; à cause; soit; je veux "
        "dire",
        closed="moi aussi; pas encore; je ne sais pas; je crois pas; je ne crois pas; je ne peux "
        "pas; je ne veux pas; c'est ça; je pense que oui; pas du tout; il y en a; je n'en ai pas; "
        "avec; oui j'ai; j'en veux; on y va; et vous; je n'en sais rien; il n'y en a pas; ça ne "
        "marche pas",
        holds="attendez; attends; un instant; un moment; une seconde; une minute; je regarde; je "
        "vérifie; laissez moi voir; ne quittez pas",
        answers="oui; non; si; d'accord; ok; okay; merci; merci beaucoup; s'il vous plaît; "
        "bonjour; oui merci; non merci; au revoir; exactement; voilà; c'est tout; c'est ça; rien; "
        "stop; bien sûr; parfait; très bien; oui s'il vous plaît; c'est correct",
        asks="quoi que quel quelle quels quelles qui quand où pourquoi comment combien est-ce "
        "pouvez-vous avez-vous puis-je peut-on est",
        clauses="si quand parce puisque lorsque comme bien",
        last="et ou",
    ),
    "es": _leaning(
        open="el la los las un una unos unas lo mi mis tu tus su sus nuestro nuestra y e o u pero "
        "sino porque que si aunque cuando mientras como de del al en con por para sin sobre entre "
        "hasta desde hacia según a yo se me este esta estos estas cada ni",
        lean="es son era está están estoy soy he ha hay tengo tiene puedo puede quiero quiere muy "
        "casi solo también no entonces más nos le les te tan donde quien",
        fillers="eh em este mmm ehm pues bueno",
        begun="y luego; y entonces; y después; mi número es; mi nombre es; me llamo; mi dirección "
        "es; quiero; quisiera; me gustaría; necesito; tengo que; por ejemplo; es decir; o sea; el "
        "problema es; a causa; debido a; lo que pasa es; para que; así que",
        closed="yo también; no lo sé; creo que no; creo que sí; todavía no; aún no; así es; ya "
        "está; no puedo; no quiero; sí puedo; ya lo tengo; eso es; no hay; sí hay; sí tengo; no "
        "tengo; nada más; algo más; no más; ahora no; qué es; quién es; dónde está; aquí está; lo "
        "que sea",
        holds="un momento; un segundo; un minuto; espere; espera; déjeme ver; déjame ver; a ver; "
        "un instante; déjeme buscar",
        answers="sí; si; no; vale; ok; okay; claro; correcto; exacto; gracias; muchas gracias; "
        "por favor; sí por favor; no gracias; adiós; hola; eso es todo; nada; nada más; eso es; "
        "para; de acuerdo; perfecto; muy bien; ya está",
        asks="qué quién cuándo dónde cómo cuánto cuánta cuántos cuál cuáles puede podría tiene "
        "hay es",
        clauses="si cuando porque aunque mientras como",
        last="y e o u",
    ),
    "it": _leaning(
        open="il lo la i gli le l' un uno una un' mio mia miei tuo suo sua nostro vostro e ed o "
        "ma però perché che se quando mentre come di del della dello dei delle degli d' a al alla "
        "allo ai alle agli da dal dalla in nel nella con per su sul sulla tra fra senza verso io "
        "mi si questo questa ogni né c'",
        lean="è sono era ho ha abbiamo posso può voglio vorrei devo deve molto quasi solo anche "
        "ancora non poi allora quindi più dove chi ci ne dopo prima sotto sopra",
        fillers="ehm eh mmm uhm beh cioè allora",
        begun="e poi; il mio numero è; il mio nome è; mi chiamo; il mio indirizzo è; vorrei; "
        "voglio; ho bisogno; per esempio; ad esempio; il problema è; a causa; in modo; sia; nel "
        "senso; vale a dire; diciamo",
        closed="anch'io; non lo so; penso di sì; credo di no; credo di sì; penso di no; non "
        "ancora; va bene così; eccolo; nient'altro; non posso; non voglio; chi è; cos'è; dov'è; e "
        "poi basta; ci sono; non ce l'ho; e lei; così è; di più",
        holds="un momento; un attimo; un secondo; un minuto; aspetti; aspetta; vediamo; mi faccia "
        "vedere; mi lasci controllare",
        answers="sì; si; no; va bene; ok; okay; certo; esatto; giusto; grazie; grazie mille; "
        "prego; per favore; sì grazie; no grazie; arrivederci; ciao; pronto; è tutto; basta; "
        "niente; nient'altro; perfetto; d'accordo; sì per favore; basta così",
        asks="che cosa chi quando dove perché come quanto quanta quanti quale quali può potrebbe "
        "ha è c'è",
        clauses="se quando perché mentre siccome poiché",
        last="e ed o",
    ),
    "pt": _leaning(
        open="o os as um uma uns umas meu minha meus minhas seu sua teu tua nosso nossa e ou mas "
        "porque que se embora quando enquanto como de do da dos das em no na nos nas com por pelo "
        "pela para pra sem sobre entre até desde ao aos à às eu este esta esse essa cada nem a",
        lean="é são era está estou sou tenho tem há posso pode quero quer preciso muito quase só "
        "também não então mais onde quem me depois antes bem tão",
        fillers="hum hã ah é ehm bom pois",
        begun="e depois; e então; e aí; o meu número é; meu número é; o meu nome é; meu nome é; "
        "me chamo; chamo me; meu endereço é; eu quero; eu queria; gostaria de; preciso de; por "
        "exemplo; quer dizer; ou seja; o problema é; por causa; tenho que; devido a",
        closed="eu também; não sei; acho que não; acho que sim; ainda não; é isso; é só isso; "
        "mais nada; não posso; não quero; não tenho; sim tenho; sim quero; quem é; o que é; onde "
        "está; agora não; tudo bem; está bem; sei não; um pouco mais; aqui está",
        holds="um momento; um segundo; um minuto; um instante; espere; espera; deixe eu ver; "
        "deixa eu ver; deixe-me ver; só um momento",
        answers="sim; não; ok; okay; certo; claro; exato; correto; obrigado; obrigada; muito "
        "obrigado; muito obrigada; por favor; sim por favor; não obrigado; não obrigada; tchau; "
        "adeus; olá; alô; é tudo; é só isso; nada; mais nada; pare; está bem; tudo bem; perfeito; "
        "isso; isso mesmo",
        asks="que quem quando onde como quanto quanta quantos qual quais pode poderia tem é por",
        clauses="se quando porque embora enquanto como",
        last="e ou",
    ),
    "nl": _leaning(
        open="de het een mijn jouw uw zijn haar ons onze hun en of maar want dus omdat dat als "
        "terwijl hoewel zodat voordat nadat tenzij van uit bij naar sinds voor tegen zonder "
        "tussen wegens ik wij we hij deze dit die elke tot dan geen",
        lean="met in op aan over onder door om te is was ben heb heeft hebben wordt kan kunnen "
        "moet moeten wil wilde zou zal heel erg bijna alleen ook nog al niet toen ze er waar wie",
        fillers="eh ehm uh uhm hm hmm nou tja",
        begun="en dan; en toen; mijn nummer is; mijn naam is; mijn adres is; ik heet; ik wil; ik "
        "wil graag; ik zou graag; ik moet; bijvoorbeeld; dat wil zeggen; het probleem is; zowel; "
        "vanwege; er is; er zijn; ik bedoel; zeg maar",
        closed="ik ook; nog niet; ik denk het wel; ik weet het niet; ik denk van niet; dat is "
        "het; liever niet; zet het aan; wat is er; wat dan; dat weet ik niet; dat klopt niet; dat "
        "was het; ik heb het; ik wil het; doe maar niet; waar is het; wie is dat; wat is dat; doe "
        "dat",
        holds="een moment; moment; momentje; even wachten; wacht; wacht even; een ogenblik; "
        "seconde; even kijken; ik kijk even; laat me even kijken",
        answers="ja; nee; jawel; oké; ok; okay; goed; precies; klopt; dat klopt; bedankt; dank u; "
        "dank je; dank u wel; dank je wel; alstublieft; ja graag; nee dank u; nee bedankt; hallo; "
        "dag; tot ziens; dat is alles; niets; stop; natuurlijk; graag; dat was het; prima",
        asks="wat wie wanneer waar waarom hoe welke welk hoeveel is zijn heeft hebben kan kunt "
        "kunnen mag wilt zou",
        clauses="als wanneer omdat hoewel terwijl nadat voordat zodra",
        last="en of",
    ),
}
