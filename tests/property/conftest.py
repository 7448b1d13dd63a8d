"""How properties are tried: by number of examples, never against a clock, so that a busy machine changes nothing."""

from hypothesis import HealthCheck, settings

settings.register_profile("steady", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("steady")
