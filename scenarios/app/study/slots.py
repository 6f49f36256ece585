"""All slots of a scenario, joined here because their parts live on several floors."""

from fl.aggregation import AGGREGATIONS
from fl.attacks import ATTACKS
from fl.availability import AVAILABILITIES
from fl.curation import CURATIONS
from fl.data import DATA
from fl.data.partition import PARTITIONS
from fl.defenses import DEFENSES
from fl.encodings import ENCODINGS
from fl.learners import LEARNERS
from fl.membership import INFERENCES
from fl.networks import NETWORKS
from fl.optimisers import OPTIMISERS
from fl.population import POPULATIONS
from fl.priors import PRIORS
from fl.pseudonyms import PSEUDONYMS
from fl.query import QUERIES
from fl.server import SERVERS
from fl.server_optimiser import SERVER_OPTIMISERS
from fl.withholding import WITHHOLDINGS
from netsim.base_stations import LAYOUTS
from netsim.city import CITIES
from netsim.compute_spread import COMPUTE_SPREADS
from netsim.mobility import MOBILITIES
from netsim.part import OneOf
from netsim.radio import ANTENNAS, FADINGS, PATH_LOSSES, PENETRATIONS, SHADOWINGS, SIGHTS, UPLINKS
from netsim.radio.rate import RATES
from netsim.radio.schedulers import SCHEDULERS
from rl.agents import AGENTS
from rl.reward import REWARDS
from rl.settings import TASKS
from scenarios.app.study.powers import POWERS

SLOTS: dict[str, OneOf] = {
    union.slot: union
    for union in (
        CITIES,
        MOBILITIES,
        PATH_LOSSES,
        SIGHTS,
        SHADOWINGS,
        PENETRATIONS,
        FADINGS,
        UPLINKS,
        RATES,
        SCHEDULERS,
        COMPUTE_SPREADS,
        POWERS,
        LAYOUTS,
        ANTENNAS,
        DATA,
        PARTITIONS,
        AVAILABILITIES,
        QUERIES,
        WITHHOLDINGS,
        CURATIONS,
        LEARNERS,
        NETWORKS,
        ENCODINGS,
        PRIORS,
        OPTIMISERS,
        DEFENSES,
        AGGREGATIONS,
        SERVERS,
        SERVER_OPTIMISERS,
        PSEUDONYMS,
        POPULATIONS,
        ATTACKS,
        INFERENCES,
        TASKS,
        AGENTS,
        REWARDS,
    )
}
