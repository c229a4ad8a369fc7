package clean

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// DeadSummary is a DeadFile without its bitmap and without the ordinals of its sets.
type DeadSummary struct {
	Binding
	ComputedThrough int64
	Lineage         uint64
	PassedAtMs      int64
	DeadBytes       int64
	DeadRecords     uint32
	Removable       []RemovableCount // ascending by SinceMs; at most 16 elements
}

// RemovableCount is the time and the size of a RemovableSet.
type RemovableCount struct {
	SinceMs int64
	Count   uint32
}

// ReadDeadSummary reads the header of a .dead file of size bytes and the headers of its sets. These
// are some hundred bytes, however many records the segment has. It does not verify the checksum,
// which covers the whole file, so the result is for reports only. It fails with an error that wraps
// ErrDeadFile if the sizes in the headers do not add up to the file's size.
func ReadDeadSummary(file io.ReaderAt, size int64) (*DeadSummary, error) {
	var head [deadHeaderBytes]byte
	if err := readDead(file, head[:], 0); err != nil {
		return nil, err
	}
	if string(head[:8]) != deadMagic {
		return nil, fmt.Errorf("%w: wrong magic", ErrDeadFile)
	}
	field := func(index int) uint64 { return binary.BigEndian.Uint64(head[index:]) }
	half := func(index int) uint32 { return binary.BigEndian.Uint32(head[index:]) }
	d := &DeadSummary{
		Binding: Binding{Base: int64(field(8)), LogBytes: int64(field(16)),
			Identity: field(24), Records: half(72)},
		ComputedThrough: int64(field(32)), Lineage: field(40), PassedAtMs: int64(field(48)),
		DeadBytes: int64(field(64)), DeadRecords: half(76),
	}
	sets, words := half(80), int64(half(84))
	if sets > removableSetsMax || d.DeadRecords > d.Records || d.DeadBytes < 0 ||
		d.DeadBytes > d.LogBytes {
		return nil, fmt.Errorf("%w: %d sets, %d of %d records, %d of %d bytes", ErrDeadFile, sets,
			d.DeadRecords, d.Records, d.DeadBytes, d.LogBytes)
	}
	position := deadHeaderBytes + 8*words
	for range sets {
		var set [setHeaderBytes]byte
		if err := readDead(file, set[:], position); err != nil {
			return nil, err
		}
		d.Removable = append(d.Removable, RemovableCount{
			SinceMs: int64(binary.BigEndian.Uint64(set[:])),
			Count:   binary.BigEndian.Uint32(set[8:])})
		position += setHeaderBytes + int64(binary.BigEndian.Uint32(set[12:]))
	}
	if position+4 != size {
		return nil, fmt.Errorf("%w: %d bytes, want %d", ErrDeadFile, size, position+4)
	}
	return d, nil
}

// readDead reads a part of a .dead file. A file that ends before the end of this part is invalid.
func readDead(file io.ReaderAt, part []byte, position int64) error {
	n, err := file.ReadAt(part, position)
	switch {
	case n == len(part):
		return nil
	case err == nil || errors.Is(err, io.EOF):
		return fmt.Errorf("%w: %d bytes at %d, want %d", ErrDeadFile, n, position, len(part))
	}
	return fmt.Errorf("read .dead file: %w", err)
}
