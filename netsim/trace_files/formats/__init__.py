"""Formats of trace files."""

from netsim.part import OneOf

TRACE_FORMATS = OneOf(
    "trace-format",
    places={
        "gpx": "netsim.trace_files.formats.gpx:Gpx",
        "sumo-fcd": "netsim.trace_files.formats.sumo_fcd:SumoFcd",
        "plt": "netsim.trace_files.formats.text_tracks:Plt",
        "cabspotting": "netsim.trace_files.formats.text_tracks:Cabspotting",
        "tcx": "netsim.trace_files.formats.logs:Tcx",
        "fit": "netsim.trace_files.formats.logs:Fit",
        "kml": "netsim.trace_files.formats.logs:Kml",
        "google-timeline": "netsim.trace_files.formats.logs:GoogleTimeline",
        "geojson": "netsim.trace_files.formats.logs:GeoJson",
        "owntracks": "netsim.trace_files.formats.logs:OwnTracks",
        "csv": "netsim.trace_files.formats.csv_table:CsvTable",
    },
)
