from .folder import read_folder as read_folder
from .folder import write_folder as write_folder
from .manifest import ModelFileError as ModelFileError
from .model_state import model_from_state as model_from_state
from .model_state import model_state as model_state
from .nested import flatten_state as flatten_state
from .nested import restore_state as restore_state
