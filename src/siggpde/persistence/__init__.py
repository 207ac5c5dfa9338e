"""Models on disk: a folder of plain JSON, tensors and a card to read; nothing in it is ever executed."""

from siggpde.persistence.card import CardContent as CardContent
from siggpde.persistence.card import CardData as CardData
from siggpde.persistence.card import model_card as model_card
from siggpde.persistence.folder import read_folder as read_folder
from siggpde.persistence.folder import write_folder as write_folder
from siggpde.persistence.manifest import ModelFileError as ModelFileError
from siggpde.persistence.model_state import model_from_state as model_from_state
from siggpde.persistence.model_state import model_state as model_state
from siggpde.persistence.nested import flatten_state as flatten_state
from siggpde.persistence.nested import restore_state as restore_state
from siggpde.persistence.view_committee_state import view_committee_from_state as view_committee_from_state
from siggpde.persistence.view_committee_state import view_committee_state as view_committee_state
