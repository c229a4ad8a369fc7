#!/usr/bin/env python3
"""Writes the frames that foreign_test.go reads: as clients in other languages write them, and
invalid ones.

pip install lz4==4.4.5 zstandard==0.25.0 python-snappy==0.7.3; then, in this folder: python3 make.py

Each NAME.CODEC decodes to the text of content(). A frame whose NAME begins with "refused-" must be
rejected.
"""
import gzip, io, os, struct, zlib
import lz4.frame, snappy, zstandard


def content():
    """Returns the text of every frame: 2,800 records, more than one block of each codec except
    LZ4's largest."""
    return b"".join(b'{"id":%d,"subject":"ticket %d","status":"open"}\n' % (i, i * 7919 % 1000) for i in range(2800))


def write(name, data):
    with open(name, "wb") as file:
        file.write(data)


def lz4_frames(text):
    def frame(**options):
        options.setdefault("block_linked", False)
        return lz4.frame.compress(text, **options)

    write("content-size.lz4", frame(store_size=True))
    write("no-size.lz4", frame(store_size=False))
    for size in (lz4.frame.BLOCKSIZE_MAX64KB, lz4.frame.BLOCKSIZE_MAX256KB, lz4.frame.BLOCKSIZE_MAX1MB, lz4.frame.BLOCKSIZE_MAX4MB):
        write("block-size-%d.lz4" % size, frame(block_size=size))
    write("content-checksum.lz4", frame(content_checksum=True))
    write("block-checksum.lz4", frame(block_checksum=True))
    write("all-checksums-and-size.lz4", frame(block_checksum=True, content_checksum=True, store_size=True))
    write("high-compression.lz4", frame(compression_level=12))
    write("negative-level.lz4", frame(compression_level=-10))
    # Kafka's reader and Heartwood's stop at the end of the first frame and ignore further bytes.
    write("bytes-behind-the-end.lz4", frame() + b"not looked at")
    write("refused-dependent-blocks.lz4", lz4.frame.compress(text, block_linked=True, block_size=lz4.frame.BLOCKSIZE_MAX64KB))
    write("refused-cut.lz4", frame()[:-10])
    write("refused-skippable-first.lz4", struct.pack("<II", 0x184D2A50, 3) + b"abc" + frame())


def zstd_frames(text):
    def frame(part=text, level=3, **options):
        return zstandard.ZstdCompressor(level=level, **options).compress(part)

    def parameters(**options):
        return zstandard.ZstdCompressor(compression_params=zstandard.ZstdCompressionParameters.from_level(3, **options)).compress(text)

    def streamed(**options):  # without a content size, so that the window is the requested one
        stream = zstandard.ZstdCompressor(compression_params=zstandard.ZstdCompressionParameters.from_level(3, **options)).compressobj()
        return stream.compress(text) + stream.flush()

    half = len(text) // 2
    write("content-size.zstd", frame(write_content_size=True))
    write("checksum.zstd", frame(write_checksum=True))
    write("no-size.zstd", frame(write_content_size=False))
    write("negative-level.zstd", frame(level=-5))
    write("level-22.zstd", frame(level=22))
    write("long-window-27.zstd", streamed(window_log=27, enable_ldm=True))
    write("window-10.zstd", parameters(window_log=10))
    write("two-frames.zstd", frame(text[:half]) + frame(text[half:]))
    skippable = struct.pack("<II", 0x184D2A5F, 5) + b"skip!"
    write("skippable-frames.zstd", skippable + frame(text[:half]) + skippable + frame(text[half:]) + skippable)
    stream = io.BytesIO()
    writer = zstandard.ZstdCompressor(level=3).stream_writer(stream, closefd=False)
    for at in range(0, len(text), 10_000):
        writer.write(text[at:at + 10_000])
        writer.flush()
    writer.close()
    write("many-blocks.zstd", stream.getvalue())
    write("refused-wrong-checksum.zstd", frame(write_checksum=True)[:-1] + b"\0")
    write("refused-garbage-behind.zstd", frame() + b"garbage")
    write("refused-cut.zstd", frame()[:-10])
    write("refused-window-28.zstd", streamed(window_log=28))


def gzip_members(text):
    half = len(text) // 2
    write("level-1.gzip", gzip.compress(text, 1, mtime=0))
    write("level-9.gzip", gzip.compress(text, 9, mtime=0))
    write("two-members.gzip", gzip.compress(text[:half], 6, mtime=0) + gzip.compress(text[half:], 6, mtime=0))
    write("empty-member-behind.gzip", gzip.compress(text, 6, mtime=0) + gzip.compress(b"", 6, mtime=0))
    body = zlib.compressobj(6, zlib.DEFLATED, -15)
    deflated = body.compress(text) + body.flush()
    header = b"\x1f\x8b\x08\x1c" + b"\0" * 4 + b"\0\xff" + struct.pack("<H", 4) + b"AB\0\0" + b"name\0" + b"comment\0"
    write("name-comment-extra.gzip", header + deflated + struct.pack("<II", zlib.crc32(text), len(text)))
    write("refused-zlib.gzip", zlib.compress(text, 6))
    write("refused-wrong-checksum.gzip", header + deflated + struct.pack("<II", zlib.crc32(text) ^ 1, len(text)))
    write("refused-wrong-size.gzip", header + deflated + struct.pack("<II", zlib.crc32(text), len(text) + 1))
    write("refused-cut.gzip", gzip.compress(text, 6, mtime=0)[:-10])
    write("refused-garbage-behind.gzip", gzip.compress(text, 6, mtime=0) + b"garbage")


def snappy_streams(text):
    def xerial(size, version=1):
        out = b"\x82SNAPPY\0" + struct.pack(">ii", version, version)
        for at in range(0, len(text), size):
            block = snappy.compress(text[at:at + size])
            out += struct.pack(">i", len(block)) + block
        return out

    write("raw-block.snappy", snappy.compress(text))
    write("xerial-32k.snappy", xerial(32 << 10))
    write("xerial-1k.snappy", xerial(1 << 10))
    write("xerial-one-block.snappy", xerial(len(text)))
    write("refused-framing-format.snappy", snappy.StreamCompressor().add_chunk(text))
    write("refused-cut.snappy", xerial(32 << 10)[:-10])
    write("refused-raw-cut.snappy", snappy.compress(text)[:-10])


if __name__ == "__main__":
    os.chdir(os.path.dirname(os.path.abspath(__file__)))
    for make in (lz4_frames, zstd_frames, gzip_members, snappy_streams):
        make(content())
