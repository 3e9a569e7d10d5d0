# ruff: noqa: SIM905 - a word list reads better as words than as a list of quoted strings
"""Word lists of the synthetic data. Plain everyday words, written for this purpose."""

from __future__ import annotations

NOUNS = """
apple anchor arrow basket beach bell bicycle bird blanket boat book bottle box bread bridge brush bucket
button cabin camera candle carpet castle cat chair cherry circle clock cloud coat coffee corner cup curtain
desert desk dog door dragon drum eagle engine envelope farm feather fence field fire fish flag flower forest
fork fox garden gate glass glove grape guitar hammer harbour hat hill honey horse house island jacket jar
jewel kettle key kitchen kite ladder lake lamp leaf lemon letter library lion lock mango map market meadow
mirror moon mountain mouse needle nest notebook ocean onion orange owl paper park pencil piano pillow pilot
planet plate pocket pond potato queen rabbit radio rain ring river road robot rocket roof rope rose sail salt
school shadow sheep shell ship shoe silver snow sofa spoon spring star station stone storm street sugar sun
table teapot temple tent tiger tomato tower train tree tunnel umbrella valley village violin wagon wall watch
water wheel whistle willow wind window winter wolf wood yard zebra
""".split()

ADJECTIVES = """
amber big black blue brave bright broken brown calm clean clever cold cool crimson curious dark deep dry early
easy empty fast fine flat fresh gentle golden grand gray great green happy heavy hidden high hollow honest hot
huge kind large late light little long loud lucky narrow new noisy old open orange pale patient plain polite
proud purple quick quiet rare red rich round secret sharp short shy silent simple slow small soft solid steady
strong sweet tall tidy tiny true warm weak wet white wide wild wise yellow young
""".split()

VERBS = """
builds buys carries catches cleans closes counts cuts draws drops finds follows guards hears helps hides holds
keeps leaves likes lifts loses loves makes meets misses moves needs opens paints passes picks pulls pushes
reads sees sells sends shows sings stops takes teaches tells touches turns visits wants washes watches
""".split()

OTHERS = """
about above after again almost always around because before behind below between during every first fourth
however maybe more never next often only other over perhaps quite rather second seldom several since some
sometimes soon still then there third through today together tomorrow twice under until usually very while
yesterday yes no maybe alpha beta gamma delta echo foxtrot tango zulu ready ok okay pong done fine hello world
""".split()

WORDS = NOUNS + ADJECTIVES + VERBS + OTHERS

# Never drawn in training; the gate copies these to show that copying is not remembering.
UNSEEN_WORDS = """
acorn balloon cactus daisy elbow falcon giraffe helmet igloo jungle koala lantern magnet nugget oyster parrot
quartz raven saddle thimble unicorn velvet walnut yogurt zipper biscuit compass dolphin fiddle galaxy
mustard orchid pebble puzzle ribbon sandal tulip turtle vinegar whisper
""".split()

NAMES = """
Ada Alan Alice Amir Anna Ben Bob Boris Carl Carla Chen Clara Dan Dana David Diana Ella Emil Emma Eva Felix
Finn Frank Grace Hana Henry Hugo Ida Igor Ines Iris Jack Jane Jim Joan John Jonas Julia Kai Karl Kate Lars
Laura Lena Leo Lily Linda Linus Lucas Lucy Maja Maria Mark Marta Max Mia Mike Mina Nina Noah Nora Olga Oscar
Otto Paul Peter Petra Rita Robin Rosa Ruth Sam Sara Sofia Steve Tara Tim Tina Tom Uma Vera Victor Yuki Zoe
""".split()

CITIES = [
    *"""
Amsterdam Athens Bangkok Barcelona Beijing Berlin Bern Bogota Boston Brussels Budapest Cairo Chicago
Copenhagen Dallas Delhi Denver Dublin Florence Geneva Hamburg Havana Helsinki Istanbul Jakarta Kyoto Lagos
Lima Lisbon London Madrid Manila Miami Milan Montreal Moscow Mumbai Munich Naples Oslo Paris Prague Rome
Rotterdam Santiago Seattle Seoul Shanghai Singapore Sofia Stockholm Sydney Tallinn Tokyo Toronto Turin Venice
Vienna Warsaw York Zagreb Zurich
""".split(),
    "New York",
    "San Francisco",
    "Los Angeles",
    "Rio",
    "Hong Kong",
]

# Never drawn in training.
UNSEEN_CITIES = """
Accra Adelaide Auckland Baku Calgary Dakar Edinburgh Genoa Hanoi Krakow Leeds Lyon Nairobi Osaka Perth Quito
Riga Tunis Utrecht Vilnius
""".split()

SKIES = "clear cloudy rainy sunny windy foggy snowy dry stormy mild".split()

CHORES = (
    """
bake bread, clean the kitchen, paint a fence, move a server, fix my bike, plan a party, learn piano,
build a shed, write a report, test a release, plant a garden, pack a suitcase, sell a car, cook dinner,
repair the roof, sort the library, wash the windows, update the website, open a shop, train the team,
start a club, host a meeting, back up the disk, deploy a service, migrate the database, review the code,
tidy the office, visit a museum, buy a house, ship the product, learn to swim, grow tomatoes,
write a letter, make a kite
""".strip()
    .replace("\n", " ")
    .split(", ")
)

ACCENTED = "äöüßéèêàçñóíúåøæłšžñ"
SYMBOLS = "☃★→€✓😀🚀🔥🌍🎉"
