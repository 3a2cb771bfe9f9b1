"""All that naim3l has of Flower: letters between a coordinator and sites, over HTTPS.

Of Flower's server, its SuperLink, only the side for sites is offered: nobody can ask the
coordinator to run something, register a site or read along. Of its client, a SuperNode, only
messages are used: apps that a server offers are not even fetched. Both prove who they are, the
server by a certificate and a site by its key (ECDSA, P-384), and report nothing to anybody else.
"""

import os

os.environ["FLWR_TELEMETRY_ENABLED"] = "0"
os.environ["FLWR_DISABLE_UPDATE_CHECK"] = "1"

import logging
import socket
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from threading import Thread
from typing import Any, NamedTuple

import numpy as np

from naim3l._arrays import Arrays

try:
    import httpx
    import uvicorn
    from fastapi import FastAPI
    from flwr.app import Array, ArrayRecord, ConfigRecord, Message, RecordDict
    from flwr.app.message.message import remove_content_from_message
    from flwr.common.constant import (
        NOOP_ACCOUNT_NAME,
        NOOP_FLWR_AID,
        SUPERLINK_NODE_ID,
    )
    from flwr.common.serde import message_from_proto, message_to_proto
    from flwr.proto.fleet_pb2 import (
        ActivateNodeRequest,
        PullMessagesRequest,
        PushMessagesRequest,
    )
    from flwr.proto.heartbeat_pb2 import SendNodeHeartbeatRequest
    from flwr.proto.message_pb2 import (
        ConfirmMessageReceivedRequest,
        PullObjectRequest,
        PushObjectRequest,
    )
    from flwr.proto.node_pb2 import Node
    from flwr.supercore.constant import FLWR_IN_MEMORY_DB_NAME, NOOP_FEDERATION_ID, TaskType
    from flwr.supercore.error import http_error_translator
    from flwr.supercore.inflatable.inflatable_object import (
        get_all_nested_objects,
        get_object_tree,
        no_object_id_recompute,
    )
    from flwr.supercore.inflatable.inflatable_utils import (
        ObjectPullError,
        ObjectUnavailableError,
        pull_and_inflate_object_from_tree,
    )
    from flwr.supercore.primitives.asymmetric import public_key_to_bytes
    from flwr.supercore.protobuf.translation import ProtobufTranslationMiddleware
    from flwr.supercore.task_identity import TaskIdentity
    from flwr.superlink.config_loader import (
        get_federation_manager,
        get_objectstore_linkstate_factories,
    )
    from flwr.superlink.routers.fleet.node_auth import NodeAuthMiddleware
    from flwr.superlink.routers.fleet.router import router
    from flwr.supernode.fleet_http_client import FleetHttpClient
    from flwr.supernode.node_auth_http_interceptor import NodeAuthHttpInterceptor
    from starlette.middleware import Middleware
    from starlette.middleware.base import BaseHTTPMiddleware
except ImportError as missing:
    message = f"rounds over a network need Flower: pip install 'naim3l[flwr]' ({missing})."
    raise ImportError(message) from missing

logging.getLogger("flwr").setLevel(logging.CRITICAL)
# Seconds between signs of life, and those after which, twice over, a site is taken for gone.
BEAT, HEARTBEAT = 3.0, 10
AT_MOST = 5  # seconds until a server has closed its connections


class Letter(NamedTuple):
    """What is sent: facts, which are numbers and text, and arrays."""

    facts: dict[str, Any]
    arrays: Arrays


class Lost(Exception):
    """The coordinator does not answer now, or does not know this connection any more."""

    refused = False  # whether it has answered, and not as hoped


class Server:
    """The coordinator's end: Flower's SuperLink, open to the sites with these keys alone."""

    def __init__(
        self, keys: Mapping[str, Any], host: str, port: int, certificate: str, key: str
    ) -> None:
        _, factory = get_objectstore_linkstate_factories(
            FLWR_IN_MEMORY_DB_NAME, get_federation_manager()
        )
        self._state = state = factory.state()
        self._nodes = {
            site: state.create_node(
                NOOP_FLWR_AID, NOOP_ACCOUNT_NAME, public_key_to_bytes(of), 0, name=site
            )
            for site, of in keys.items()
        }
        self._run, self._task = _start_run(state)
        listening = socket.create_server((host, port), family=_family(host))
        self._server = uvicorn.Server(
            uvicorn.Config(
                _application(factory),
                ssl_certfile=certificate,
                ssl_keyfile=key,
                log_level="critical",
                access_log=False,
                timeout_graceful_shutdown=1,
            )
        )
        self._thread = Thread(target=self._server.run, args=([listening],), daemon=True)
        self._thread.start()
        while not self._server.started:
            if not self._thread.is_alive():
                raise OSError("the server did not start; are certificate and key of one pair?")
            time.sleep(0.02)

    def present(self) -> dict[str, str]:
        """Sites that are connected, and since when."""
        found = self._state.get_node_info(node_ids=list(self._nodes.values()))
        since = {node.node_id: node.last_activated_at for node in found if node.status == "online"}
        return {site: since[node] for site, node in self._nodes.items() if node in since}

    def send(self, site: str, letter: Letter) -> str:
        """Leave a letter for a site, and return its number."""
        content = _content(letter)
        message = Message(content=content, dst_node_id=self._nodes[site], message_type="query")
        with _numbered(message) as (tree, objects):
            session = self._state.start_session(self._run)
            bare = remove_content_from_message(message)
            self._state.store_message_and_object_tree(bare, tree, session)
            for name, part in objects.items():
                self._state.store_object(self._run, session, name, part.deflate())
        return message.metadata.message_id

    def receive(self, numbers: Mapping[str, str]) -> dict[str, Letter | None]:
        """Answers to letters by site, given their numbers; None if the site has gone away."""
        self._state.acknowledge_task_heartbeat(self._task)
        found: dict[str, Letter | None] = {}
        sites = {number: site for site, number in numbers.items()}
        for reply in self._state.get_message_res(set(sites), self._run):
            site = sites[reply.metadata.reply_to_message_id]
            if reply.has_error():
                found[site] = None
                continue
            found[site] = self._take(reply.metadata.message_id, site)
        done = {numbers[site] for site in found}
        for number in done:
            self._state.object_store.delete(number)
        self._state.delete_messages(done)
        return found

    def _take(self, number: str, site: str) -> Letter | None:
        store = self._state.object_store

        def get(name: str) -> bytes | None:
            if not (content := store.get(name)) and site not in self.present():
                raise ObjectPullError(name, "the site went away before all of it was here")
            return content

        try:
            return _letter(_inflate(store.get_object_tree(number), get))
        except ObjectPullError:
            return None
        finally:
            store.delete(number)

    def close(self) -> None:
        """Stop listening."""
        self._server.should_exit = True
        self._thread.join(AT_MOST)


class Connection:
    """A site's end: Flower's SuperNode without its apps."""

    def __init__(self, address: str, certificate: bytes, key: Any) -> None:
        self._key, self._node, self._beaten = key, None, 0.0
        signing = NodeAuthHttpInterceptor(key, key.public_key())
        self._client = FleetHttpClient.from_server_address(
            address, False, certificate, interceptors=[signing]
        )

    def connect(self) -> None:
        """Be present at the coordinator, if it is not so already, and give a sign of life."""
        with _loss():
            if self._node is None:
                key = public_key_to_bytes(self._key.public_key())
                ask = ActivateNodeRequest(public_key=key, heartbeat_interval=HEARTBEAT)
                self._node = Node(node_id=self._client.ActivateNode(ask).node_id)
            self._beat()

    def _beat(self) -> None:
        if time.monotonic() - self._beaten > BEAT:
            beat = SendNodeHeartbeatRequest(node=self._node, heartbeat_interval=HEARTBEAT)
            self._client.SendNodeHeartbeat(beat)
            self._beaten = time.monotonic()

    def forget(self) -> None:
        """Connect anew the next time."""
        self._node = None

    def close(self) -> None:
        """Close the connection, which the coordinator notices after a while."""
        self._client.close()

    def receive(self) -> tuple[Any, Letter] | None:
        """The next letter, and what `reply` needs to know of it; None if there is none now."""
        with _loss():
            found = self._client.PullMessages(PullMessagesRequest(node=self._node))
            if not found.messages_list:
                return None
            run = found.messages_list[0].metadata.run_id
            [tree] = found.message_object_trees

            def pull(name: str) -> bytes | None:
                ask = PullObjectRequest(node=self._node, run_id=run, object_id=name)
                answer = self._client.PullObject(ask)
                self._beat()
                return answer.object_content if answer.object_available else None

            message = _inflate(tree, pull)
            received = ConfirmMessageReceivedRequest(
                node=self._node, run_id=run, message_object_id=tree.object_id
            )
            self._client.ConfirmMessageReceived(received)
            bare = message_from_proto(found.messages_list[0])
            return bare, _letter(message)

    def reply(self, to: Any, letter: Letter) -> None:
        """Answer a letter."""
        message = Message(content=_content(letter), reply_to=to)
        with _loss(), _numbered(message) as (tree, objects):
            found = self._client.PushMessages(
                PushMessagesRequest(
                    node=self._node,
                    messages_list=[message_to_proto(remove_content_from_message(message))],
                    message_object_trees=[tree],
                    clientapp_runtime_list=[0.0],
                )
            )
            for name in found.objects_to_push:
                self._beat()
                self._client.PushObject(
                    PushObjectRequest(
                        node=self._node,
                        run_id=to.metadata.run_id,
                        session_id=found.session_id,
                        object_id=name,
                        object_content=objects[name].deflate(),
                    )
                )


def _start_run(state: Any) -> tuple[int, int]:
    """Numbers of a run, to which all letters belong, and of its task, this program."""
    given: Any = "naim3l/rounds", "1", "", {}, NOOP_FEDERATION_ID, None, NOOP_FLWR_AID
    number = state.create_run(*given, TaskType.SERVER_APP)
    [run] = state.get_run_info(run_ids=[number])
    task = run.primary_task_id
    state.claim_task(task)
    state.activate_task(task)
    TaskIdentity.run_id, TaskIdentity.node_id = number, SUPERLINK_NODE_ID
    TaskIdentity.task_id = task
    return number, task


def _application(factory: Any) -> Any:
    """What answers requests: those of sites, and no others."""
    app = FastAPI(
        docs_url=None,
        redoc_url=None,
        openapi_url=None,
        middleware=[
            Middleware(BaseHTTPMiddleware, dispatch=http_error_translator),
            Middleware(ProtobufTranslationMiddleware),
            Middleware(NodeAuthMiddleware),
        ],
    )
    app.state.linkstate_factory, app.state.enable_supernode_auth = factory, True
    app.include_router(router)
    return app


@contextmanager
def _loss() -> Iterator[None]:
    """Errors of the network as `Lost`, but a certificate that is not the server's."""
    try:
        yield
    except httpx.HTTPStatusError as error:
        lost = Lost(f"it does not let this site in yet (answer {error.response.status_code})")
        lost.refused = True
        raise lost from error
    except httpx.HTTPError as error:
        if "certificate" in str(error).lower():
            raise PermissionError(
                f"the server's certificate is not the one that was given: {error}. Get it anew "
                "from the coordinator, or check the address."
            ) from error
        raise Lost(str(error) or type(error).__name__) from error
    except ObjectPullError as error:
        raise Lost(str(error)) from error


def _content(letter: Letter) -> Any:
    arrays = ArrayRecord({name: Array(np.asarray(array)) for name, array in letter.arrays.items()})
    return RecordDict({"facts": ConfigRecord(letter.facts), "arrays": arrays})


def _letter(message: Any) -> Letter:
    """A letter from a message; Flower reads arrays without running code in them."""
    facts, arrays = message.content["facts"], message.content["arrays"]
    return Letter(dict(facts), {name: array.numpy() for name, array in arrays.items()})


@contextmanager
def _numbered(message: Any) -> Iterator[tuple[Any, dict[str, Any]]]:
    """Give a message its number; its parts as a tree, and by their numbers."""
    message.metadata.__dict__["_message_id"] = message.object_id
    with no_object_id_recompute():
        yield get_object_tree(message), get_all_nested_objects(message)


def _inflate(tree: Any, get: Any) -> Any:
    """A message from its parts, which ``get`` returns, or nothing while they are not there."""

    def pull(name: str) -> bytes:
        if not (content := get(name)):
            raise ObjectUnavailableError(name)
        return content

    return pull_and_inflate_object_from_tree(
        tree,
        pull,
        lambda name: None,
        return_type=Message,
        max_tries_per_object=None,
        initial_backoff=0.02,
        backoff_cap=0.5,
    )


def _family(host: str) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in host else socket.AF_INET
