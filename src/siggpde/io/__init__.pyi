from .data import NotStreamable as NotStreamable
from .data import SeriesData as SeriesData
from .reading import from_frame as from_frame
from .reading import read as read
from .streams import SeriesStream as SeriesStream
from .streams import stream as stream
from .time_spans import groups_by_time as groups_by_time
from .writing import write as write
