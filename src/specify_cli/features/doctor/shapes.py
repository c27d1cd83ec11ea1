"""The JSON that this room's commands print."""

from specify_cli.cli.schemas.shapes import shape_of
from specify_cli.features.doctor import doctor

SHAPES = {
    "doctor-report": shape_of(doctor.DoctorReport),
}
