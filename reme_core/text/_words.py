"""Closed word lists of the segmentation: English stop words and irregular word forms.

Sources: the stop words are the English function words (articles, pronouns, auxiliaries, prepositions,
conjunctions, question words) with their contractions once the apostrophe is dropped; the irregular forms are the
common irregular verbs and plurals of any English grammar, which a suffix stemmer cannot bring together. A form that
is as often another word ("left", "found", "saw" as nouns or adjectives) is listed when the verb is the commoner
reading in talk.
"""

_STOP = """
a about above all also am an and any are as at be because been being below between but by can cannot could did do does
doing done during each for from had has have having he her here hers herself him himself his how i if in into is it
its itself just me my myself no nor not now of on or our ours ourselves she should so some such than that the their
theirs them themselves then there these they this those through to too until upon us very was we were what when where
which while who whom whose why will with would you your yours yourself yourselves im ive youre youve youd youll hes
shes itll weve theyre theyve theyd theyll thats theres whats wheres whos hows lets isnt arent wasnt werent dont doesnt
didnt cant couldnt wont wouldnt shouldnt havent hasnt hadnt aint mustnt neednt s t d ll m o re ve y
"""
STOP_WORDS = frozenset(_STOP.split())
# Contractions that are other words without their apostrophe: "I'll", "she'd".
CONTRACTIONS = frozenset({"i'd", "i'll", "he'd", "he'll", "she'd", "she'll", "we'd", "we'll", "we're"})

_IRREGULAR = """
arise arose arisen; awake awoke awoken; beat beaten; become became; begin began begun; bend bent; bite bit bitten;
bleed bled; blow blew blown; break broke broken; breed bred; bring brought; build built; burn burnt; buy bought;
catch caught; choose chose chosen; come came; creep crept; deal dealt; dig dug; draw drew drawn;
dream dreamt; drink drank drunk; drive drove driven; eat ate eaten; fall fell fallen; feed fed; feel felt;
fight fought; find found; flee fled; fly flew flown; forbid forbade forbidden; forget forgot forgotten;
forgive forgave forgiven; freeze froze frozen; get got gotten; give gave given; go went gone; grow grew grown;
hang hung; hear heard; hide hid hidden; hold held; keep kept; kneel knelt; know knew known; lay laid; lead led;
lean leant; learn learnt; leave left; lend lent; light lit; lose lost; make made; mean meant; meet met; pay paid;
ride rode ridden; ring rang rung; rise rose risen; run ran; say said; see saw seen; seek sought; sell sold;
send sent; shake shook shaken; shine shone; shoot shot; show shown; shrink shrank shrunk; sing sang sung;
sink sank sunk; sit sat; sleep slept; slide slid; speak spoke spoken; spend spent; spill spilt; spin spun;
stand stood; steal stole stolen; stick stuck; sting stung; strike struck; strive strove striven; swear swore sworn;
sweep swept; swell swollen; swim swam swum; swing swung; take took taken; teach taught; tear tore torn; tell told;
think thought; throw threw thrown; understand understood; wake woke woken; wear wore worn; weave wove woven;
weep wept; win won; wind wound; withdraw withdrew withdrawn; write wrote written;
man men; woman women; child children; foot feet; tooth teeth; mouse mice; goose geese; wife wives;
knife knives; shelf shelves; half halves; wolf wolves; loaf loaves; thief thieves
"""


def _irregular_forms() -> dict[str, str]:
    forms: dict[str, str] = {}
    for group in _IRREGULAR.split(";"):
        base, *others = group.split()
        forms.update(dict.fromkeys(others, base))
    return forms


BASE_FORMS = _irregular_forms()
