"""`unlabel federation`: kits for all parties, and new certificates before the old ones end."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from unlabel.cli.federation_demo import demo
from unlabel.cli.output import Json, print_json, print_result, print_table, say
from unlabel.signing import COMPARE

app = typer.Typer(help="Set a federation of organisations up.", no_args_is_help=True)

app.command()(demo)

FIRST_USE = (
    "This kit names no signing keys, as kits of 0.7 and before do not: each key is trusted when "
    "the first certificate meets it."
)

KitFolder = Annotated[Path, typer.Argument(metavar="KIT", help="Folder of a party's kit.")]


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
    from unlabel.config.loader import read_agreement
    from unlabel.data import ACTIVE
    from unlabel.remote.kit import AGREEMENT
    from unlabel.remote.provision import AUTHORITY, provision
    from unlabel.signing import fingerprint

    kits = provision(file, out, zipped=zipped)
    trust = read_agreement(kits[AUTHORITY] / AGREEMENT)[0].trust
    prints = {party: fingerprint(key) for party, key in trust.items()}
    if json:
        places = {name: str(path) for name, path in kits.items()}
        print_json({"kits": places, "fingerprints": prints})
        return
    todo = {ACTIVE: "stays here", AUTHORITY: "keep apart from the kits; it certifies parties anew"}
    rows = [["party", "kit", "what to do with it"]]
    for name, path in kits.items():
        rows.append([name, str(path), todo.get(name, f"hand to {name}, over a safe way")])
    print_table("Kits", rows, "Each kit holds private keys; delete what you have handed over.")
    _print_fingerprints(prints)


@app.command()
def show(kit: KitFolder, json: Json = False) -> None:
    """Show whose kit it is, where the parties meet, which models, what is allowed, until when."""
    from unlabel.remote.describe import describe_kit

    facts = describe_kit(kit)
    if json:
        print_json(facts)
    else:
        _print_kit(facts)


def _print_kit(facts: dict[str, Any]) -> None:
    from unlabel.remote.describe import in_words

    rows = [["", "kit"], ["party", facts["party"]], ["parties", ", ".join(facts["parties"])]]
    rows += [["server", facts["server"]], ["agreement", facts["agreement"][:16]]]
    for part, name in facts["model"].items():
        # Imported into the process that holds the table: its owner should have read it.
        warning = " (not unlabel's own: code that runs here)" if ":" in name else ""
        rows.append([f"{part} model", f"{name}{warning}"])
    rows.append(["bottoms", in_words(facts["bottoms"])])
    for name, dates in facts["certificates"].items():
        rows.append([f"certificate of {name}", f"{dates['from']} to {dates['until']}"])
    for name, value in (facts["policy"] or {}).items():
        rows.append([name, ", ".join(value) if isinstance(value, list) else str(value)])
    rows += [[name, words] for name, words in facts["rules"].items()]
    print_table(f"Federation {facts['federation']}", rows)
    if facts["fingerprints"]:
        _print_fingerprints(facts["fingerprints"])
    else:
        say(FIRST_USE)
        if facts["signing_key"] is not None:
            say(f"Signs with the public key {facts['signing_key']}.")
    if facts["problem"] is not None:
        say(f"This kit cannot be used now: {facts['problem']}")


def _print_fingerprints(prints: Mapping[str, str]) -> None:
    print_table("Signing keys", [["party", "fingerprint"], *map(list, prints.items())], COMPARE)


@app.command()
def drop(
    kit: KitFolder,
    party: Annotated[str, typer.Option(help="Who demands it.")],
    json: Json = False,
) -> None:
    """Delete the kept embeddings of a blind run, at the active party; nobody is called for it."""
    from unlabel import Federation

    with Federation.connect(kit) as federation:
        federation.drop_embeddings(party)
    sentence = (
        f"The embeddings of all rows were deleted, as {party} demands. New people are still "
        f"predicted; for requests `unlabel train --federation {kit}` asks for embeddings again, "
        f"where every party allows it."
    )
    print_result({"kit": str(kit), "party": party}, sentence, json=json)


@app.command()
def request(
    kit: KitFolder,
    out: Annotated[Path, typer.Option(help="File for the request.")],
    json: Json = False,
) -> None:
    """Make new keys, which stay in the kit, and a request to have them certified."""
    from unlabel.remote.kit import Kit
    from unlabel.remote.renew import request as write_request

    opened = Kit.read(kit)
    write_request(opened, out)
    facts = {"party": opened.name, "request": str(out)}
    sentence = f"Wrote {out}; send it to whoever set the federation up. It holds no secret."
    print_result(facts, sentence, json=json)


@app.command()
def renew(
    authority: Annotated[Path, typer.Argument(help="Folder of the authority.")],
    party: Annotated[str, typer.Option(help="Whose certificate.")],
    out: Annotated[Path, typer.Option(help="File for the new certificate.")],
    request: Annotated[
        Path | None,
        typer.Option("--request", help="The party's request; without one, new keys are made too."),
    ] = None,
    days: Annotated[int, typer.Option(help="For how long it is valid.")] = 365,
    json: Json = False,
) -> None:
    """Certify a party anew, before its certificate ends."""
    from unlabel.remote.certificates import moment
    from unlabel.remote.renew import renew as certify

    renewal = certify(authority, party, out, days=days, request_file=request)
    until = moment(min(each.not_valid_after_utc for each in renewal.certificates.values()))
    keys = bool(renewal.keys)
    facts = {"party": party, "file": str(out), "until": until, "holds_keys": keys}
    secret = " It holds private keys: hand it over a safe way." if keys else ""
    todo = "Its operator runs `unlabel federation install`."
    print_result(facts, f"Wrote {out}, valid until {until}.{secret} {todo}", json=json)


@app.command()
def install(
    kit: KitFolder,
    file: Annotated[Path, typer.Argument(help="What `unlabel federation renew` wrote.")],
    json: Json = False,
) -> None:
    """Put a renewed certificate in place; it holds from the party's next start."""
    from unlabel.remote.kit import Kit
    from unlabel.remote.renew import install as put_in_place

    opened = Kit.read(kit)
    files = put_in_place(opened, file)
    facts = {"party": opened.name, "files": [str(path) for path in files]}
    sentence = f"The new certificate of {opened.name} is in place; start the party again."
    print_result(facts, sentence, json=json)
