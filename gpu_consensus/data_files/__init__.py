"""Features and labels from files, and labels into files.

The end of a file's name says what it is, in small letters or capitals; ".gz" behind it
that it is packed, and "-" is standard input or output. Of text files separator, header,
decimal mark and encoding are recognised, or named by a :class:`Form`; which columns are
wanted, and which names the objects, is recognised too, or named by a :class:`Choice`.
"""

from gpu_consensus.data_files.columns import Choice, Table
from gpu_consensus.data_files.form import Form
from gpu_consensus.data_files.read import (
    drop_columns,
    read_features,
    read_labels,
    read_partitions,
)
from gpu_consensus.data_files.source import STANDARD
from gpu_consensus.data_files.write import (
    check_output,
    check_writable,
    labels_text,
    write_labels,
)

__all__ = [
    "STANDARD",
    "Choice",
    "Form",
    "Table",
    "check_output",
    "check_writable",
    "drop_columns",
    "labels_text",
    "read_features",
    "read_labels",
    "read_partitions",
    "write_labels",
]
