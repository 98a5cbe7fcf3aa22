"""Words of everyday English that stand for one another, and kinds with their members.

A question and the text that answers it often use different words of one meaning ("job", "work"), or the question names
the kind of what the text names ("which sport", "surfing"). The lists are general English, of the size of a phrase
book's index, written without regard to any one data set; a list that grows towards a data set would measure itself.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

from reme_core.text.segment import terms

# Groups, separated by semicolons: each word may stand for each other of its group.
_SYNONYMS = """
job work career profession occupation employment position; boss manager supervisor; colleague coworker teammate; hire
employ recruit; fire dismiss layoff; company firm business startup; money cash fund finance; salary wage income pay;
buy purchase shop; sell sale; kid child son daughter toddler baby; mother mom mum mama; father dad papa; parent mother
father mom dad; brother sister sibling; grandmother grandma granny nana; grandfather grandpa granddad; husband wife
spouse partner; marry wedding marriage engage propose bride groom; boyfriend girlfriend partner date; divorce separate
breakup split; relative family cousin aunt uncle nephew niece; friend buddy pal mate; pet dog cat puppy kitten; dog
puppy pup canine; cat kitten kitty; doctor physician medical; hospital clinic er; sick ill illness disease; injury
hurt injure wound; pain ache sore; medicine medication drug pill prescription; diet nutrition eat; exercise workout
gym fitness train; overweight weight obese; stress pressure tension; anxious anxiety nervous worry; sad upset depress
unhappy; happy glad joy excite thrill; angry mad furious annoy; afraid fear scare terrify; tired exhaust fatigue;
relax unwind chill calm; hobby pastime interest passion; movie film cinema; book novel read; author writer; song music
tune track; band concert gig; game play; sport athletic; picture photo photograph image snapshot; painting paint art
draw artwork; dance dancing ballet; cook bake recipe; restaurant cafe diner eatery; meal dinner lunch breakfast; food
dish snack cuisine; drink beverage; car vehicle drive auto; crash accident collision; bike bicycle cycle; trip travel
vacation journey holiday tour visit; trek hike trail; beach sea ocean coast; mountain peak summit; forest wood nature;
lake river; camp campsite tent; plane flight airport fly; hotel hostel inn accommodation; house home apartment flat
place; move relocate; rent lease; neighbour neighbor; town city; country nation; school college university class;
teacher professor instructor coach mentor; student pupil; study learn research; degree diploma graduate; exam test;
course class lesson workshop; lecture seminar talk; meet meeting encounter; volunteer charity donate; fundraiser fund
raise charity; shelter rescue; church faith religion pray; award prize trophy medal; win victory champion; compete
competition contest tournament match; goal aim objective ambition dream; plan intend schedule; start begin launch
open; finish complete end; stop quit give; try attempt; help assist support aid; advice suggest recommend tip
recommendation; gift present; birthday anniversary; party celebrate celebration; event gathering festival; big large
huge; small little tiny; begin start; often frequently regularly; favorite favourite prefer; like love enjoy; hate
dislike; talk speak chat discuss conversation; say tell mention; inspire motivate encourage; achieve accomplish
achievement accomplishment success; problem issue trouble difficulty challenge; break damage destroy; lose loss; die
death pass; old elderly; computer laptop pc; phone mobile smartphone; internet online web; app application software;
code program programming developer; garden plant flower; tree wood; clothes outfit dress wear; shoe sneaker boot;
store shop; create make build; improve better enhance; change alter; join enroll sign; decide choose pick decision;
funny humor joke; cold freeze; hot warm; rain storm; fix repair; clean tidy; lawyer attorney; police officer cop; army
military soldier veteran; vote election politics political campaign; environment nature climate; repair mend
maintenance mechanic; engine motor; license licence permit; ticket pass; suitcase luggage baggage pack; passport visa
border; map route direction; bridge tunnel; station train rail railway subway metro; bus coach; ship boat ferry cruise
sail; ride lift; arrive reach land; leave depart departure; return back; wait delay; early late; quick fast rapid;
slow gradual; cheap inexpensive affordable bargain; expensive costly pricey; price cost fee charge; debt loan mortgage
borrow; save saving; invest investment stock; tax; bill invoice; bank account; insurance; rich wealthy; poor poverty
homeless; gym fitness; marathon race run jog; coach trainer; injury sprain fracture; surgery operation; recover
recovery heal rehab; allergy allergic; dentist tooth; therapy therapist counselor counseling psychologist; meditation
meditate mindfulness yoga; sleep nap rest insomnia; vegetarian vegan; healthy health wellbeing; smoke cigarette;
alcohol drunk sober; pregnant pregnancy baby; birth born; adopt adoption foster; ceremony reception; guest invite
invitation; roommate flatmate housemate; landlord tenant; furniture sofa couch chair table; kitchen oven stove;
bathroom shower bath; bedroom bed; decorate decoration renovate renovation remodel; yard garden lawn; roof ceiling;
window door; bag backpack purse; ring jewelry necklace bracelet; toy doll; hair haircut; makeup cosmetic; glasses; hat
cap; coat jacket; trousers pants jeans; shirt blouse; cake dessert pastry; vegetable veggie; meat beef chicken pork;
seafood fish shrimp; soup stew; coffee espresso latte; tea; beer wine; bread bakery; spicy spice; taste flavor flavour
delicious tasty yummy; hungry starve; concert festival show performance perform; stage theater theatre; actor actress;
sing singer vocal; guitar piano violin instrument; album record; lyric lyricist; audience crowd fan; museum gallery
exhibition exhibit; sculpture statue; photographer photography camera; pottery ceramic clay; craft handmade; poem
poetry poet; story tale; journal diary; newspaper magazine article; blog post; video youtube clip; podcast radio; tv
television series show; cartoon anime animation; comic superhero; character hero; fantasy fiction; mystery detective;
horror scary; comedy comedian standup; team squad club; player athlete; score point goal; league season championship;
train practice practise; ball; fight boxing; chess; card; puzzle; console playstation xbox nintendo; level stage; dog
walk leash; breed; vet veterinarian; bird parrot; fish aquarium; horse pony; farm farmer; insect bug; wildlife animal;
weather climate forecast; snow ice; flood storm hurricane; sun sunny; sunset sunrise; star sky; night evening; morning
dawn; weekend saturday sunday; spring summer autumn fall winter; recent recently lately; past previous former; future;
current present; year annual; month monthly; week weekly; day daily; robot ai; website site; email mail letter;
message text; call phone; password login; file document; data database; error bug crash; update upgrade; design
designer; engineer engineering; science scientist; research researcher; experiment; lab laboratory; math mathematics;
history historical; language speak; translate translation; foreign abroad overseas; culture tradition traditional
custom; immigrant immigrate; opinion view thought; idea concept; reason cause; result outcome effect; purpose goal;
importance important significant; difference different; example; method way technique; skill ability talent;
experience; knowledge; mistake error; risk danger dangerous; safe safety secure; freedom free independence; law legal;
crime criminal steal theft rob; prison jail; judge court; war battle; peace; protest march rally parade; government
mayor president; right equality; lgbtq gay lesbian queer transgender pride; woman female girl; man male boy; youth
teen teenager young; senior elder elderly old; generation; community local neighborhood; organization organisation
group; member membership; leader lead leadership; role; responsibility duty; project task; deadline due; report;
presentation present; interview; promotion promote raise; retire retirement; quit resign; office workplace; client
customer; meeting conference; business entrepreneur startup shop; excited thrilled; proud pride; grateful thankful
appreciate gratitude; lonely alone; bored boring; confident confidence; brave courage courageous; shy; jealous;
embarrassed ashamed; surprise surprised shock; disappointed disappoint; hope hopeful; miss; trust; respect; kind
kindness generous; honest truth; beautiful gorgeous stunning pretty; ugly; amazing awesome incredible wonderful
fantastic great; terrible awful horrible bad; strange weird odd; easy simple; hard difficult tough; busy; famous
celebrity; popular; new; broken; empty; full; clean; dirty mess; search seek; receive get; bring carry; send mail
deliver; keep hold; throw toss; drop fall; push; pull; climb ascend; jump leap; walk stroll wander; sit; stand; touch;
listen hear; watch see look; notice; remember recall memory; forget; understand; believe; imagine; wonder; explain;
describe; ask question; answer reply respond; agree; argue argument; apologize sorry; promise; warn; invite; visit;
share; collect collection; count number; measure; cut; burn fire; wash; hide; follow; lead; cause; happen occur;
continue; grow; increase rise; decrease reduce; replace; remove; add; combine; separate; attend participate join;
organize organise arrange; prepare preparation; manage; control; protect; fail failure; survive; celebrate; relax;
laugh smile; cry tear; hug kiss; sign; symbol represent meaning; inspire inspiration; influence; motivate motivation;
encourage encouragement; support; struggle; overcome; reminder remind; nickname name; origin background hometown;
identity; status single married; age old; height tall; size; shape; material; pattern; quote saying
"""

# Kinds, separated by semicolons: the kind before the colon may stand for its members, not they for it.
_KINDS = """
sport: basketball football soccer tennis baseball hockey volleyball golf swim surf ski snowboard skate run cycle yoga
box climb rugby cricket badminton; exercise: run jog swim yoga gym weight cycle hike walk stretch pilates; instrument:
guitar piano violin drum flute saxophone trumpet cello clarinet bass ukulele keyboard harp; pet: dog cat puppy kitten
bird parrot fish hamster rabbit turtle snake lizard guinea; animal: dog cat bird horse fish bear wolf elephant lion
rabbit turtle snake; family: mother father mom dad brother sister son daughter kid child wife husband cousin aunt
uncle grandma grandpa parent; color: red blue green yellow purple orange pink black white brown; food: pizza pasta
salad soup sandwich burger chicken fish rice bread cheese vegetable fruit cake cookie chocolate ice; dessert: cake
cookie pie ice chocolate brownie pudding tart cupcake muffin; drink: coffee tea beer wine juice soda water cocktail
smoothie milk; art: paint painting draw sculpture pottery photography craft; creative: paint draw write music pottery
photography craft; hobby: paint draw read write cook bake garden photography hike camp music guitar piano dance chess
game; activity: hike camp swim paint run cook bake dance yoga game picnic ski surf; outdoor: hike camp kayak fish
climb surf ski swim run beach mountain trail; country: usa america canada mexico brazil england uk britain france
germany italy spain portugal greece turkey sweden norway china japan korea india thailand vietnam australia ireland
scotland egypt morocco africa; city: york london paris tokyo rome berlin boston chicago seattle miami angeles
francisco toronto vancouver barcelona madrid dublin sydney; state: california texas florida oregon washington nevada
arizona colorado michigan ohio georgia virginia carolina minnesota alaska hawaii york massachusetts illinois; place:
city town park museum beach restaurant cafe church; vehicle: car truck bike motorcycle van bus train boat; weather:
rain snow sun storm wind cloud; emotion: happy sad angry proud excited nervous anxious grateful lonely scare; feel:
happy sad angry proud excited nervous anxious grateful lonely scare; injury: ankle knee leg arm shoulder wrist sprain
break fracture hurt; health: doctor hospital weight diet blood heart sick pain surgery; music: rock jazz classical pop
song band concert guitar piano; genre: rock jazz classical pop fantasy mystery romance thriller fiction comedy;
subject: math science history english art physics biology; degree: psychology engineering business education law
medicine art science; language: english spanish french german italian chinese japanese korean; weekday: monday tuesday
wednesday thursday friday saturday sunday; device: phone laptop computer tablet watch camera tv console; furniture:
table chair sofa couch bed desk shelf lamp; clothing: dress shirt jacket shoe hat jeans coat; holiday: christmas
thanksgiving halloween easter birthday; martial: karate judo taekwondo boxing kickboxing; game: chess poker card board
video console; console: playstation xbox nintendo; religion: church god faith pray bible; crafts: pottery knit sew
wood
"""


@lru_cache(maxsize=1 << 12)
def related_terms(term: str) -> tuple[str, ...]:
    """List the terms that a query's term may stand for, itself left out, in alphabetical order; often none.

    Takes and gives index terms, as `terms` makes them. Only words that begin like the term are stemmed, not the lists:
    stemming keeps the first two letters.
    """
    groups = _groups()
    alike = [word for word in groups.by_beginning.get(term[:2], ()) if term in terms(word)]
    members = {member for word in alike for number in groups.of_word[word] for member in groups.members[number]}
    return tuple(sorted({found for member in members for found in terms(member)} - {term}))


@dataclass(frozen=True, slots=True)
class _Groups:
    """Groups of words as written; the groups of each word that may stand for others; these words by beginning."""

    members: tuple[tuple[str, ...], ...]
    of_word: Mapping[str, tuple[int, ...]]
    by_beginning: Mapping[str, tuple[str, ...]]


@lru_cache(maxsize=1)
def _groups() -> _Groups:
    members: list[tuple[str, ...]] = []
    of_word: dict[str, list[int]] = {}
    for entry in (*_SYNONYMS.split(";"), *_KINDS.split(";")):
        kind, colon, listed = entry.partition(":")
        heads = kind.split()
        for head in heads:
            of_word.setdefault(head, []).append(len(members))
        members.append(tuple(listed.split() if colon else heads))
    beginnings: dict[str, list[str]] = {}
    for word in of_word:
        beginnings.setdefault(word[:2], []).append(word)
    return _Groups(
        members=tuple(members),
        of_word={word: tuple(numbers) for word, numbers in of_word.items()},
        by_beginning={beginning: tuple(words) for beginning, words in beginnings.items()},
    )
