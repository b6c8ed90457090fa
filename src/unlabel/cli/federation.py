"""`unlabel federation`: kits for all parties, and certificates that last."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from unlabel.cli.federation_demo import demo
from unlabel.cli.output import Json, messages, print_json, print_table
from unlabel.errors import RunError

if TYPE_CHECKING:
    from unlabel.operate.kit import Kit

app = typer.Typer(help="Set a federation of organisations up.", no_args_is_help=True)

app.command()(demo)

KitFolder = Annotated[Path, typer.Argument(metavar="KIT", help="Folder of a party's kit.")]


@app.callback()
def root() -> None:
    """Set a federation of organisations up."""


@app.command()
def init(
    file: Annotated[Path, typer.Argument(help="What the federation is to be: federation.yaml.")],
    out: Annotated[Path, typer.Option(help="New folder for the kits.")] = Path("kits"),
    zipped: Annotated[
        bool, typer.Option("--zip", help="Make one file of each passive party's kit.")
    ] = False,
    json: Json = False,
) -> None:
    """Make a kit for every party, each with its own certificate and key."""
    from unlabel.data import ACTIVE
    from unlabel.operate.provision import AUTHORITY, provision

    found = provision(file, out, zipped=zipped)
    if json:
        print_json({"kits": {name: str(path) for name, path in found.items()}})
        return
    rows = [["party", "kit", "what to do with it"]]
    for name, path in found.items():
        if name == AUTHORITY:
            todo = "keep apart from the kits; it certifies parties anew"
        else:
            todo = "stays here" if name == ACTIVE else f"hand to {name}, over a safe way"
        rows.append([name, str(path), todo])
    print_table("Kits", rows, "Each kit holds a private key; delete what you have handed over.")


@app.command()
def show(kit: KitFolder, json: Json = False) -> None:
    """Show whose kit it is, where the parties meet, which models, what is allowed, until when."""
    from unlabel.configfile import plain_settings
    from unlabel.operate.certificates import moment, organisation, read_certificate
    from unlabel.operate.kit import Kit
    from unlabel.operate.rules import describe_rules
    from unlabel.signing import KEY as SIGNING_KEY
    from unlabel.signing import Signer

    found = Kit.read(kit)
    problem = None
    try:
        found.check()
    except RunError as error:
        problem = str(error)
    dates = {}
    for folder, base, owner in found.certificates():
        path = folder / f"{base}.crt"
        if path.is_file():
            certificate = read_certificate(path)
            dates[owner.name] = {
                "of": organisation(certificate),
                "from": moment(certificate.not_valid_before_utc),
                "until": moment(certificate.not_valid_after_utc),
            }
    agreed = found.agreement
    models = _models(found)
    allowed = describe_rules(found.engine / "local")
    # Made when the party first signs something; others compare it with what they trust.
    key = Signer(found.home).public if (found.home / SIGNING_KEY).is_file() else None
    if json:
        print_json(
            {
                "federation": agreed.name,
                "party": found.name,
                "parties": agreed.parties,
                "server": f"{agreed.server.host}:{agreed.server.port}",
                "agreement": found.digest,
                "model": models,
                "certificates": dates,
                "signing_key": key,
                "policy": None if found.is_active else plain_settings(found.policy),
                "rules": allowed,
                "problem": problem,
                "kit": str(found.folder),
            }
        )
        return
    rows = [["", "kit"], ["party", found.name], ["parties", ", ".join(agreed.parties)]]
    rows.append(["server", f"{agreed.server.host}, port {agreed.server.port}"])
    rows.append(["agreement", found.digest[:16]])
    for part, name in models.items():
        # Imported into the process that holds the table: its owner should have read it.
        rows.append(
            [
                f"{part} model",
                f"{name} (not unlabel's own: code that runs here)" if ":" in name else name,
            ]
        )
    for name, held in dates.items():
        rows.append([f"certificate of {name}", f"{held['from']} to {held['until']}"])
    if not found.is_active:
        rows += [[name, _words(value)] for name, value in plain_settings(found.policy).items()]
    rows += [[name, words] for name, words in allowed.items()]
    print_table(f"Federation {agreed.name}", rows)
    if key is not None:
        messages.print(f"Signs with the public key {key}.", soft_wrap=True)
    if problem is not None:
        messages.print(f"This kit cannot be used now: {problem}", soft_wrap=True)


@app.command()
def request(
    kit: KitFolder,
    out: Annotated[Path, typer.Option(help="File for the request.")],
    json: Json = False,
) -> None:
    """Make new keys, which stay in the kit, and a request to have them certified."""
    from unlabel.operate.kit import Kit
    from unlabel.operate.renew import request as ask

    found = Kit.read(kit)
    ask(found, out)
    if json:
        print_json({"party": found.name, "request": str(out)})
        return
    messages.print(
        f"Wrote {out}; send it to whoever set the federation up. It holds no secret.",
        soft_wrap=True,
    )


@app.command()
def renew(
    authority: Annotated[Path, typer.Argument(help="Folder of the authority.")],
    party: Annotated[str, typer.Option(help="Whose certificate.")],
    out: Annotated[Path, typer.Option(help="File for the new certificate.")],
    asked: Annotated[
        Path | None,
        typer.Option("--request", help="The party's request; without one, new keys are made too."),
    ] = None,
    days: Annotated[int, typer.Option(help="For how long it is valid.")] = 365,
    json: Json = False,
) -> None:
    """Certify a party anew, before its certificate ends."""
    from unlabel.operate.certificates import moment
    from unlabel.operate.renew import renew as certify

    made = certify(authority, party, out, days=days, asked=asked)
    until = min(certificate.not_valid_after_utc for certificate in made.certificates.values())
    if json:
        result = {"party": party, "file": str(out), "until": moment(until)}
        print_json({**result, "holds_keys": bool(made.keys)})
        return
    secret = " It holds private keys: hand it over a safe way." if made.keys else ""
    messages.print(
        f"Wrote {out}, valid until {moment(until)}.{secret} Its operator runs "
        f"`unlabel federation install`.",
        soft_wrap=True,
    )


@app.command()
def install(
    kit: KitFolder,
    file: Annotated[Path, typer.Argument(help="What `unlabel federation renew` wrote.")],
    json: Json = False,
) -> None:
    """Put a renewed certificate in place; it holds from the party's next start."""
    from unlabel.operate.kit import Kit
    from unlabel.operate.renew import install as put_in_place

    found = Kit.read(kit)
    files = put_in_place(found, file)
    if json:
        print_json({"party": found.name, "files": [str(path) for path in files]})
        return
    messages.print(
        f"The new certificate of {found.name} is in place; start the party again.", soft_wrap=True
    )


def _models(kit: Kit) -> dict[str, str]:
    """Return the models that this party builds; the top model is the active party's alone."""
    agreed = kit.agreement.model
    top = {"top": agreed.top_name()} if kit.is_active else {}
    return {"bottom": agreed.bottom_of(kit.name), **top}


def _words(value: object) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)
