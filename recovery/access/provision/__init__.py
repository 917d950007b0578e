"""Rights in a reviewed file: what a provisioning document says, and how it is made so."""

from recovery.access.provision.document import read
from recovery.access.provision.run import Outcome, provision

__all__ = ["Outcome", "provision", "read"]
