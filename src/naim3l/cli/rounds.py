"""``naim3l federate`` over a network: the key of a site, the coordinator, and a site that joins."""

from pathlib import Path
from typing import Annotated, Any

import typer

from naim3l.cli.app import print_table, report_errors, say
from naim3l.cli.federate import Config, Target, read_site, save_model
from naim3l.cli.options import option

Site = Annotated[str, typer.Argument(help="Name of the site, as in its settings.")]
Keys = Annotated[list[Path], typer.Argument(help="Public keys of all sites, such as north.pub.")]
Folder: Any = option("Folder to write the key to.", Path, "--folder")
Hub: Any = option("Folder of the server's certificate; made if there is none.", Path, "--folder")
Hosts: Any = option(
    "Name or address by which sites reach this machine, for a new certificate; repeat it for "
    "several.",
    list[str],
    "--host",
)
Listen: Any = option("Address to listen at; 0.0.0.0 is on all networks.", str, "--listen")
Port: Any = option("Port to listen at.", int, "--port")
Server: Any = option("Address of the coordinator, such as hub.example.org:9443.", str, "--server")
Certificate: Any = option("Certificate of the coordinator, server.crt.", Path, "--certificate")
Key: Any = option("Private key of this site, from 'naim3l federate key'.", Path, "--key")
With: Any = option(
    "Public key of a site, for secure sums; repeat it for all sites, this one included.",
    list[Path],
    "--with",
)
State: Any = option(
    "Folder in which the fit is kept until its end; default: the model file and .fit.",
    Path,
    "--folder",
)


def key(site: Site, folder: Folder = Path()) -> None:
    """Make the key of a site, for a fit over a network.

    The file ending in .key stays at the site and is nobody else's business. The one ending in .pub
    goes to the coordinator and, for secure sums, to all sites; on the telephone they compare what
    is printed here.

    Example: naim3l federate key north
    """
    with report_errors():
        from naim3l.federated.keys import make_key

        private, public, made = make_key(site, folder)
    say(f"Wrote {private}, which must not leave the site, and {public}.")
    say(f"Fingerprint of {public.name}: {made.fingerprint}")


def serve(
    keys: Keys,
    folder: Hub = Path("coordinator"),
    host: Hosts = None,
    listen: Listen = "127.0.0.1",
    port: Port = 9443,
) -> None:
    """Coordinate one fit of several sites over a network: add up their sums.

    Needs the extra 'flwr'. Sites can come, go and come back; this program can be stopped and
    started again. It ends when the fit has ended at all sites, and keeps nothing of it.

    Example: naim3l federate serve north.pub south.pub --host hub.example.org --listen 0.0.0.0
    """
    with report_errors():
        from naim3l.federated.network import serve

        hosts = {"hosts": host} if host else {}
        done = serve(keys, folder, **hosts, listen=listen, port=port, report=say)
    header, rows = ["site", "bytes received", "bytes sent"], done.bytes_received.items()
    cells = [[site, f"{n:,}", f"{done.bytes_sent[site]:,}"] for site, n in rows]
    print_table(f"{done.rounds} rounds in {done.seconds:.0f} s", header, cells)


def join(
    config: Config,
    server: Server,
    certificate: Certificate,
    key: Key,
    out: Target,
    others: With = None,
    folder: State = None,
) -> None:
    """Fit the model of this site together with other sites, over a network.

    Needs the extra 'flwr'. All sites need the same labels, and the same lam and ridge, or the same
    grids of them. Nothing that the server sends is run here. If this program is stopped or
    killed, the same command resumes the fit.

    Example: naim3l federate join --config study.toml --server hub.example.org:9443
    --certificate server.crt --key north.key -o north.model
    """
    with report_errors():
        from naim3l.federated.network import join

        folder = Path(f"{out}.fit") if folder is None else folder
        settings, views, given = read_site(config, out, certificate, key, *(others or ()))
        own = settings.federated
        given |= {name: own[name] for name in ("labels", "minimum_count") if name in own}
        where = {"server": server, "certificate": certificate, "key": key, "folder": folder}
        model = join(**given, **where, others=others or (), report=say)
        save_model(model, settings, views, given, out)
    say(f"Wrote {out}. The folder {folder} is not needed any more.")
