package keys

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"

	"heartwood.dev/heartwood/internal/vfs"
)

// outputBufferBytes is the size of an output's buffer, and therefore of most writes.
const outputBufferBytes = 64 << 10

// output writes a file sequentially through a buffer.
type output struct {
	file     vfs.File
	throttle func(n int) error // called before each write
	buffer   []byte
	size     int64 // number of bytes written to the file and in the buffer
}

func (o *output) Write(part []byte) (int, error) {
	if len(o.buffer)+len(part) > outputBufferBytes {
		if err := o.flush(); err != nil {
			return 0, err
		}
	}
	o.buffer = append(o.buffer, part...)
	o.size += int64(len(part))
	return len(part), nil
}

// flush writes the buffer.
func (o *output) flush() error {
	if len(o.buffer) == 0 {
		return nil
	}
	if err := o.throttle(len(o.buffer)); err != nil {
		return err
	}
	if _, err := o.file.WriteAt(o.buffer, o.size-int64(len(o.buffer))); err != nil {
		return fmt.Errorf("write key sidecar: %w", err)
	}
	o.buffer = o.buffer[:0]
	return nil
}

// sidecarFile writes a sidecar: first the sections in the order of the file, then the header.
type sidecarFile struct {
	fsys   vfs.FS
	name   string // final path; before publish, the file has a temporary name
	out    output
	header header
	pages  pageWriter
	opts   Options
}

// createSidecar creates the file under its temporary name.
func createSidecar(fsys vfs.FS, name string, h header, throttle func(int) error) (*sidecarFile,
	error) {
	file, err := fsys.Create(name + vfs.TemporarySuffix)
	if err != nil {
		return nil, fmt.Errorf("create key sidecar: %w", err)
	}
	s := &sidecarFile{fsys: fsys, name: name, header: h,
		out: output{file: file, throttle: throttle, size: headerBytes}}
	return s, nil
}

// begin begins a section.
func (s *sidecarFile) begin(part section, capacity int) *pageWriter {
	s.pages = pageWriter{
		out: &s.out, digest: s.header.identity.Digest, section: part, capacity: capacity,
		payload: s.pages.payload[:0],
	}
	return &s.pages
}

// end ends the current section.
func (s *sidecarFile) end() error {
	err := s.pages.end()
	if s.pages.section == indexSection {
		s.header.indexBytes = s.pages.written
		s.header.sections[entriesSection-1] += s.pages.written
		return err
	}
	s.header.sections[s.pages.section-1] = s.pages.written
	return err
}

// publish checks the header like a reader, writes it, syncs the file and renames the file.
func (s *sidecarFile) publish() error {
	if err := s.header.check(s.out.size); err != nil {
		return err
	}
	if err := s.out.flush(); err != nil {
		return err
	}
	if _, err := s.out.file.WriteAt(s.header.encode(), 0); err != nil {
		return fmt.Errorf("write header of key sidecar: %w", err)
	}
	if err := s.out.file.Sync(); err != nil {
		return fmt.Errorf("sync key sidecar: %w", err)
	}
	if err := s.out.file.Close(); err != nil {
		return fmt.Errorf("close key sidecar: %w", err)
	}
	s.out.file = nil
	if s.opts.Data != nil {
		if err := s.header.verify(s.opts.Data); err != nil {
			return err
		}
	}
	if s.opts.Commit == nil {
		return s.rename()
	}
	return s.opts.Commit(s.rename)
}

// rename durably gives the file its final name.
func (s *sidecarFile) rename() error {
	if err := s.fsys.Rename(s.name+vfs.TemporarySuffix, s.name); err != nil {
		return fmt.Errorf("rename key sidecar into place: %w", err)
	}
	if err := s.fsys.SyncDir(filepath.Dir(s.name)); err != nil {
		return fmt.Errorf("sync directory of key sidecar: %w", err)
	}
	return nil
}

// discard deletes the temporary file after an error. A failure to delete it is ignored, because the
// next start of the broker deletes temporary files.
func (s *sidecarFile) discard(cause error) error {
	if s.out.file != nil {
		cause = errors.Join(cause, s.out.file.Close())
	}
	_ = s.fsys.Remove(s.name + vfs.TemporarySuffix)
	return cause
}

// Options limit the resources for building a sidecar.
type Options struct {
	// MemoryBytes limits the memory for sorting entries; default 64 MiB. A value below 16 MiB is
	// raised to 16 MiB, which suffices for any number of records. Entries that do not fit into
	// memory are sorted in a temporary file.
	MemoryBytes int64
	// Commit must call publish, which renames the file and syncs the directory, or return an error
	// if the data file was replaced meanwhile. If Commit fails, Build deletes the file and returns
	// the error unchanged. If Commit is nil, Build calls publish itself.
	Commit func(publish func() error) error
	// Data is the data file. If Data is not nil, the sidecar's probes are compared with it before
	// the rename.
	Data io.ReaderAt
	// Throttle is called before each read or write of n bytes, and may block. It may be nil.
	Throttle func(ctx context.Context, n int) error
}

// Defaults and bounds of Options.MemoryBytes.
const (
	memoryBytesDefault = 64 << 20
	memoryBytesMin     = 16 << 20
)

// entriesInMemory returns the number of entries that are sorted in memory at once. Sorting needs
// twice the memory of these entries.
func (o Options) entriesInMemory() int {
	memory := o.MemoryBytes
	if memory == 0 {
		memory = memoryBytesDefault
	}
	return int(max(memory, memoryBytesMin) / (2 * entryBytes))
}

// BuildStats contains the counts of a sidecar and the numbers of bytes that were read and written
// to build it, including temporary files and the spool.
type BuildStats struct {
	Counts
	ReadBytes, WrittenBytes int64
}

// meter counts bytes before they are read or written, and calls Options.Throttle. It returns an
// error once the context has ended.
type meter struct {
	ctx           context.Context
	throttle      func(ctx context.Context, n int) error
	read, written int64
}

func (o Options) meter(ctx context.Context) *meter { return &meter{ctx: ctx, throttle: o.Throttle} }

func (m *meter) onRead(n int) error {
	m.read += int64(n)
	return m.wait(n)
}

func (m *meter) onWrite(n int) error {
	m.written += int64(n)
	return m.wait(n)
}

func (m *meter) wait(n int) error {
	if err := m.ctx.Err(); err != nil || m.throttle == nil {
		return err
	}
	return m.throttle(m.ctx, n)
}
