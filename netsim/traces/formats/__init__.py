"""Formats of trace files."""

from netsim.part import OneOf

TRACE_FORMATS = OneOf(
    "trace-format",
    places={
        "gpx": "netsim.traces.formats.gpx:Gpx",
        "sumo-fcd": "netsim.traces.formats.sumo_fcd:SumoFcd",
        "plt": "netsim.traces.formats.text_tracks:Plt",
        "cabspotting": "netsim.traces.formats.text_tracks:Cabspotting",
        "ns2": "netsim.traces.formats.ns2:Ns2",
        "csv": "netsim.traces.formats.csv_table:CsvTable",
    },
)
