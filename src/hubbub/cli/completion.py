"""`hubbub completion`: scripts for shell completion."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

_NAME = "hubbub"


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    """Print the script that completes commands and options in SHELL.

    \b
    bash: echo 'eval "$(hubbub completion bash)"' >> ~/.bashrc
    zsh:  echo 'eval "$(hubbub completion zsh)"' >> ~/.zshrc
    fish: hubbub completion fish > ~/.config/fish/completions/hubbub.fish
    """
    found = get_completion_class(shell)
    assert found is not None
    program = context.find_root().command
    click.echo(found(program, {}, _NAME, f"_{_NAME.upper()}_COMPLETE").source())
