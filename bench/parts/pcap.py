"""Capture files as the benches make them: read whole, packets left out, and many times as long."""

import pathlib
import struct

HEAD, RECORD = 24, 16
ETHERNET, TCP = 14, 6
# what the kernel gives to those who connect
PORTS_FROM, PORTS = 32768, 28000


class Capture:
    """A little-endian pcap file of Ethernet frames; packets are (offset of the record, its length)."""

    def __init__(self, path):
        self.bytes = pathlib.Path(path).read_bytes()
        if self.bytes[:4] != b"\xd4\xc3\xb2\xa1":
            raise ValueError(f"{path} is no pcap file with microseconds of this machine's order")
        self.packets, at = [], HEAD
        while at + RECORD <= len(self.bytes):
            length = RECORD + struct.unpack_from("<I", self.bytes, at + 8)[0]
            if at + length > len(self.bytes):
                break
            self.packets.append((at, length))
            at += length

    def write(self, path, packets):
        """These packets alone."""
        with open(path, "wb") as out:
            out.write(self.bytes[:HEAD])
            for at, length in packets:
                out.write(self.bytes[at : at + length])

    def segment(self, packet):
        """A TCP segment over IPv4: (source, port, destination, port, sequence number, payload's length), else None."""
        at = packet[0] + RECORD
        if self.bytes[at + 12 : at + 14] != b"\x08\x00" or self.bytes[at + ETHERNET + 9] != TCP:
            return None
        ip = at + ETHERNET
        tcp = ip + 4 * (self.bytes[ip] & 15)
        total = struct.unpack_from(">H", self.bytes, ip + 2)[0]
        ports = struct.unpack_from(">HH", self.bytes, tcp)
        sequence = struct.unpack_from(">I", self.bytes, tcp + 4)[0]
        payload = total - (tcp - ip) - 4 * (self.bytes[tcp + 12] >> 4)
        return self.bytes[ip + 12 : ip + 16], ports[0], self.bytes[ip + 16 : ip + 20], ports[1], sequence, payload

    def bytes_only_in(self, kept):
        """Bytes of the streams that this capture has, and these packets of it do not."""
        have = self.ranges(kept)
        return sum(covered(ranges) - covered(have.get(flow, [])) for flow, ranges in self.ranges(self.packets).items())

    def ranges(self, packets):
        """By flow and direction, the ranges of sequence numbers that packets carry."""
        found = {}
        for packet in packets:
            segment = self.segment(packet)
            if segment and segment[5]:
                found.setdefault(segment[:4], []).append((segment[4], segment[4] + segment[5]))
        return found


def covered(ranges):
    """Numbers in any of the ranges."""
    total, end = 0, None
    for low, high in sorted(ranges):
        low = low if end is None else max(low, end)
        if high > low:
            total += high - low
            end = high
    return total


def without_some(capture, dice, share):
    """The packets without this share of them, by chance."""
    return [packet for packet in capture.packets if dice.random() >= share]


def grow(source, path, copies):
    """Writes a capture `copies` times, each later and from other client ports than the one before; gives the path."""
    capture = Capture(source)
    data = bytearray(capture.bytes[HEAD:])
    stamps, ports = [], []
    for packet in capture.packets:
        at = packet[0] - HEAD
        stamps.append((at, *struct.unpack_from("<II", data, at)))
        if segment := capture.segment(packet):
            tcp = at + RECORD + ETHERNET + 4 * (data[at + RECORD + ETHERNET] & 15)
            client = 0 if segment[1] > segment[3] else 2
            ports.append((tcp + client, segment[1] if client == 0 else segment[3]))
    long_s = stamps[-1][1] - stamps[0][1] + 2
    with open(path, "wb") as out:
        out.write(capture.bytes[:HEAD])
        for copy in range(copies):
            for at, seconds, micros in stamps:
                struct.pack_into("<II", data, at, seconds + copy * long_s, micros)
            for at, port in ports:
                struct.pack_into(">H", data, at, PORTS_FROM + (port - PORTS_FROM + copy * 101) % PORTS)
            out.write(data)
    return pathlib.Path(path)
