package compress

import (
	"bytes"
	"encoding/binary"

	"github.com/klauspost/compress/zstd"
)

// DecompressSingle is like Decompress, but also reports whether src consists of a single gzip
// member, lz4 frame, zstd frame or xerial stream, without bytes after it. Decompress accepts
// concatenations where the format allows them, but not every client does: librdkafka decompresses
// the first gzip member and silently ignores the others.
func DecompressSingle(dst, src []byte, codec Codec, limit int) (out []byte, single bool,
	err error) {
	if codec == Gzip {
		out, members, err := decompressMembers(dst, src, limit)
		if err != nil {
			return dst, false, err
		}
		return out, members == 1, nil
	}
	out, err = Decompress(dst, src, codec, limit)
	if err != nil {
		return dst, false, err
	}
	switch codec {
	case Snappy:
		return out, singleSnappy(src), nil
	case LZ4:
		return out, singleLZ4(src), nil
	case Zstd:
		return out, singleZstd(src), nil
	}
	return out, true, nil
}

// singleSnappy reports whether src, which must be valid, contains at most one xerial header.
func singleSnappy(src []byte) bool {
	if !bytes.HasPrefix(src, xerialMagic) {
		return true // one raw block
	}
	for rest := src[xerialHeaderBytes:]; len(rest) > 0; {
		if bytes.HasPrefix(rest, xerialMagic) {
			return false
		}
		rest = rest[4+binary.BigEndian.Uint32(rest):]
	}
	return true
}

// singleLZ4 reports whether src, which must be valid, ends with its first frame. Decompress ignores
// bytes after the first frame, as Kafka does; librdkafka refuses them.
func singleLZ4(src []byte) bool {
	frame, rest, err := parseLZ4Header(src)
	if err != nil {
		return false
	}
	trailer := 0
	if frame.blockChecksum {
		trailer = 4
	}
	for {
		word := binary.LittleEndian.Uint32(rest)
		rest = rest[4:]
		if word == 0 {
			break
		}
		rest = rest[int(word&^lz4StoredRaw)+trailer:]
	}
	contentChecksum := 0
	if src[4]&lz4ContentChecksum != 0 {
		contentChecksum = 4
	}
	return len(rest) == contentChecksum
}

// lz4ContentChecksum is the flag in FLG which means that a checksum of the content follows the
// EndMark.
const lz4ContentChecksum = 0x04

// singleZstd reports whether src, which must be valid, ends with its first frame (RFC 8878, section
// 3.1.1).
func singleZstd(src []byte) bool {
	var header zstd.Header
	if err := header.Decode(src); err != nil || header.Skippable {
		return false
	}
	const rle = 1
	for rest := src[header.HeaderSize:]; len(rest) >= 3; {
		word := int(rest[0]) | int(rest[1])<<8 | int(rest[2])<<16
		size := word >> 3
		if word>>1&3 == rle {
			size = 1 // the block consists of one byte, which is repeated
		}
		if size += 3; size > len(rest) {
			return false
		}
		rest = rest[size:]
		if word&1 != 0 {
			checksum := 0
			if header.HasCheckSum {
				checksum = 4
			}
			return len(rest) == checksum
		}
	}
	return false
}
