"""`unlabel federation`: kits for all parties, and new certificates before the old ones end."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from unlabel.cli.federation_demo import demo
from unlabel.cli.noting import note_done, noted
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
    request: Annotated[
        list[Path] | None,
        typer.Option("--request", help="First request of a party that makes its keys itself."),
    ] = None,
    certificate: Annotated[
        list[Path] | None,
        typer.Option(
            help="A party's certificate, signed by an authority of your own, with those in between."
        ),
    ] = None,
    root: Annotated[
        Path | None, typer.Option(help="The certificate of that authority; its key stays there.")
    ] = None,
    json: Json = False,
) -> None:
    """Make a kit for every party, each with its own certificate and key."""
    from unlabel.config.loader import read_agreement
    from unlabel.data import ACTIVE
    from unlabel.errors import SettingsError
    from unlabel.remote.authority_folder import AUTHORITY
    from unlabel.remote.kit_files import AGREEMENT
    from unlabel.remote.provision import Outside, provision
    from unlabel.signing import fingerprint

    if (root is None) is not (certificate is None):
        raise SettingsError("Expected --root and --certificate together, or neither of them.")
    outside = None if root is None else Outside(root, certificate or ())
    kits = provision(file, out, zipped=zipped, requests=request or (), outside=outside)
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
    print_table("Kits", rows, "Delete what you have handed over.")
    held = [name for name in prints if any(kits[name].rglob("*.key")) or _zipped_keys(kits[name])]
    if held:
        say(
            f"The private keys of {', '.join(held)} were made here: whoever ran this could have "
            f"kept copies. A party that runs `unlabel federation request` first makes its own."
        )
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
    from unlabel.signing import aloud

    rows = [["", "kit"], ["party", facts["party"]], ["parties", ", ".join(facts["parties"])]]
    rows += [["server", facts["server"]], ["agreement", aloud(facts["agreement"])]]
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
    if facts["revoked"]:
        rows.append(["lists of revoked", ", ".join(map(str, facts["revoked"]))])
    if facts["authority"]:
        rows.append(["kits are signed by", facts["authority"]])
    rows.append(["state", "this kit was started before" if facts["started"] else "none yet"])
    print_table(f"Federation {facts['federation']}", rows)
    if facts["fingerprints"]:
        _print_fingerprints(facts["fingerprints"])
    else:
        say(FIRST_USE)
        if facts["signing_key"] is not None:
            say(f"Signs with the public key {facts['signing_key']}.")
    for sentence in facts["cautions"]:
        say(f"WARNING: {sentence}")
    if facts["problem"] is not None:
        say(f"This kit cannot be used now: {facts['problem']}")


def _zipped_keys(kit: Path) -> bool:
    """Return whether a kit in one file holds private keys."""
    from zipfile import ZipFile

    if kit.suffix != ".zip":
        return False
    with ZipFile(kit) as archive:
        return any(name.endswith(".key") for name in archive.namelist())


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

    with noted(kit), Federation.connect(kit) as federation:
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
    party: Annotated[
        str | None, typer.Option(help="Your party's name, where there is no kit yet.")
    ] = None,
    host: Annotated[
        str, typer.Option(help="Where the active party will be reached; its own request only.")
    ] = "localhost",
    carrier: Annotated[
        str, typer.Option(help="direct or flare; the active party's own request only.")
    ] = "direct",
    json: Json = False,
) -> None:
    """Make new keys, which stay in the kit, and a request to have them certified."""
    from unlabel.config import ServerSettings
    from unlabel.config.federation import check_member
    from unlabel.data import ACTIVE
    from unlabel.remote.first_request import make_request
    from unlabel.remote.kit import Kit
    from unlabel.remote.renew import request as write_request
    from unlabel.signing import fingerprint

    facts: dict[str, Any]
    if party is None:
        opened = Kit.read(kit)
        write_request(opened, out)
        note_done(kit)
        facts = {"party": opened.name, "request": str(out)}
        sentence = f"Wrote {out}; send it to whoever set the federation up. It holds no secret."
    else:
        if party != ACTIVE:
            check_member(party)
        server = ServerSettings(host=host, carrier=carrier)  # type: ignore[arg-type]
        asked = make_request(kit, party, server, out)
        facts = {"party": party, "request": str(out), "signing_key": asked.signing}
        sentence = (
            f"Wrote {out}; send it to whoever sets the federation up, and compare the fingerprint "
            f"of your signing key, {fingerprint(asked.signing)}. The keys stay in {kit}: put the "
            f"kit beside them with `unlabel federation install {kit} FILE`."
        )
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
def accept(
    kit: KitFolder,
    file: Annotated[str, typer.Argument(help="A file of yours in the kit, such as a module.")],
    json: Json = False,
) -> None:
    """Accept a file that did not come with the kit, as it is now; a change takes this anew."""
    from unlabel.remote.kit import Kit
    from unlabel.remote.manifest import accept as take

    opened = Kit.read(kit)
    digest = take(opened, file)
    note_done(kit)
    facts = {"party": opened.name, "file": file, "sha256": digest}
    print_result(facts, f"{file} belongs to this kit now (SHA-256 {digest[:16]}).", json=json)


@app.command()
def revoke(
    authority: Annotated[Path, typer.Argument(help="Folder of the authority.")],
    out: Annotated[Path, typer.Option(help="File for the signed list.")],
    party: Annotated[
        str | None, typer.Option(help="Whose certificates: all that were made out so far.")
    ] = None,
    serial: Annotated[
        list[str] | None, typer.Option(help="Number of one certificate, as `show` prints it.")
    ] = None,
    json: Json = False,
) -> None:
    """Revoke certificates: write the signed list that parties are to install."""
    from cryptography.hazmat.primitives.serialization import Encoding

    from unlabel.errors import SettingsError
    from unlabel.files import write_atomically
    from unlabel.remote.authority_folder import AuthorityFolder
    from unlabel.remote.revocation import number_of

    try:
        serials = [int(each, 16) for each in serial or ()]
    except ValueError as error:
        raise SettingsError("Expected --serial to be hexadecimal, as `show` prints it.") from error
    revoked = AuthorityFolder.open(authority).revoke(party, serials)
    write_atomically(out, revoked.public_bytes(Encoding.PEM))
    number, count = number_of(revoked), len(revoked)
    sentence = (
        f"Wrote {out}, list {number}, which names {count} certificates. It holds no secret: run "
        f"`unlabel federation install active {out}` at the active party, whose process hands it to "
        f"the others while it runs. A new certificate takes `unlabel federation renew`."
    )
    print_result({"file": str(out), "number": number, "revoked": count}, sentence, json=json)


@app.command()
def install(
    kit: KitFolder,
    file: Annotated[
        Path,
        typer.Argument(
            help="What `renew` or `revoke` wrote, or the kit that was made for a first request."
        ),
    ],
    json: Json = False,
) -> None:
    """Put a certificate, a list of revoked ones, or the kit that was asked for, in place."""
    from unlabel.remote.first_request import is_waiting, put_together
    from unlabel.remote.kit import Kit
    from unlabel.remote.renew import install as put_in_place
    from unlabel.remote.renew import install_list, is_list

    if is_waiting(kit):
        opened = put_together(kit, file)
        words = f"The kit of {opened.name} is in {kit}, with the keys that were made there."
        print_result({"party": opened.name, "kit": str(kit)}, words, json=json)
        return
    opened = Kit.read(kit)
    if is_list(file):
        numbers = install_list(opened, file)
        note_done(kit)
        listed = {"party": opened.name, "lists": numbers}
        if numbers:
            sentence = f"{opened.name} takes none of the certificates that {file} names any more."
        else:
            sentence = f"{opened.name} has this list already, or a newer one."
        print_result(listed, sentence, json=json)
        return
    files = put_in_place(opened, file)
    note_done(kit)
    facts = {"party": opened.name, "files": [str(path) for path in files]}
    sentence = (
        f"The new certificate of {opened.name} is in place, and shown from its next connection on."
    )
    print_result(facts, sentence, json=json)
