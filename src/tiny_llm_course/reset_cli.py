import click
@click.command()
def reset() -> int:
    return 0
