"""The error of a configuration that cannot be used."""


class SettingsError(Exception):
    """The configuration is invalid. `problems` has one sentence for each thing to fix."""

    def __init__(self, problems: list[str]) -> None:
        self.problems = problems
        super().__init__("\n".join(problems))
