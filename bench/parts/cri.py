"""Has containerd or CRI-O run a pod with one container, as the kubelet has it done: by its CRI socket. Run by the distribution's Python,
which has python3-grpcio; prints the container's id.

usage: cri.py start SOCKET IMAGE NAMESPACE POD UID CONTAINER -- COMMAND...
       cri.py stop SOCKET
       cri.py version SOCKET
"""

import sys
import tempfile

import grpc

# the namespace of the network, of the host (`NamespaceMode` of the CRI's api.proto)
NODE = 2
# the image as whoever asked for it called it (`ImageSpec` of api.proto): CRI-O wants it
USER_SPECIFIED = 18
WAIT_S = 60


def varint(number):
    """A number as protocol buffers have it."""
    out = b""
    while number > 0x7F:
        out += bytes([number & 0x7F | 0x80])
        number >>= 7
    return out + bytes([number])


def message(*fields):
    """A message of (number, value): a value is a number, a text, or a message."""
    out = b""
    for number, value in fields:
        if isinstance(value, int):
            out += varint(number << 3) + varint(value)
        else:
            value = value.encode() if isinstance(value, str) else value
            out += varint(number << 3 | 2) + varint(len(value)) + value
    return out


def first_text(reply, wanted=1):
    """The first text of this number, of a reply whose fields are all texts or messages."""
    at = 0

    def number():
        nonlocal at
        value, shift = 0, 0
        while True:
            byte = reply[at]
            at += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    while at < len(reply):
        field, length = number() >> 3, number()
        value, at = reply[at : at + length], at + length
        if field == wanted:
            return value
    return b""


class Cri:
    """The runtime service of a socket."""

    def __init__(self, socket):
        self.channel = grpc.insecure_channel(f"unix://{socket}")

    def ask(self, what, request):
        """A reply, in bytes."""
        same = lambda given: given  # noqa: E731
        call = self.channel.unary_unary(f"/runtime.v1.RuntimeService/{what}", request_serializer=same, response_deserializer=same)
        return call(request, timeout=WAIT_S)


def start(cri, image, namespace, pod, uid, container, command):
    """A pod of one container; the container's id."""
    logs = tempfile.mkdtemp(prefix="wakepath-pod-")
    options = message((1, message((1, NODE))))
    linux = message((1, f"/kubepods/burstable/pod{uid}"), (2, options))
    # the kubelet labels both
    said = {"io.kubernetes.pod.name": pod, "io.kubernetes.pod.namespace": namespace, "io.kubernetes.pod.uid": uid}
    labels = lambda number, more: [(number, message((1, k), (2, v))) for k, v in (said | more).items()]  # noqa: E731
    sandbox = message((1, message((1, pod), (2, uid), (3, namespace))), (3, logs), *labels(6, {}), (8, linux))
    sandbox_id = first_text(cri.ask("RunPodSandbox", message((1, sandbox))))
    own = message((2, message((3, message((1, NODE))))))
    words = [(3, word) for word in command]
    named = labels(9, {"io.kubernetes.container.name": container})
    image = message((1, image), (USER_SPECIFIED, image))
    config = message((1, message((1, container))), (2, image), *words, *named, (11, "container.log"), (15, own))
    made = first_text(cri.ask("CreateContainer", message((1, sandbox_id), (2, config), (3, sandbox))))
    cri.ask("StartContainer", message((1, made)))
    return made.decode()


def stop(cri):
    """Ends and removes all pods."""
    reply = cri.ask("ListPodSandbox", b"")
    while sandbox := first_text(reply):
        pod = first_text(sandbox)
        cri.ask("StopPodSandbox", message((1, pod)))
        cri.ask("RemovePodSandbox", message((1, pod)))
        reply = cri.ask("ListPodSandbox", b"")


def main():
    what, socket, *more = sys.argv[1:]
    cri = Cri(socket)
    if what == "stop":
        stop(cri)
    elif what == "version":
        print(first_text(cri.ask("Version", b""), 2).decode())
    else:
        words, command = more[: more.index("--")], more[more.index("--") + 1 :]
        print(start(cri, *words, command))


if __name__ == "__main__":
    main()
