from .data import NotStreamable as NotStreamable
from .data import SeriesData as SeriesData
from .data import groups_by_time as groups_by_time
from .files import from_frame as from_frame
from .files import read as read
from .files import write as write
from .streams import SeriesStream as SeriesStream
from .streams import stream as stream
