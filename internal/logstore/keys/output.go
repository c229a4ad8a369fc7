package keys

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"

	"heartwood.dev/heartwood/internal/vfs"
)

// outputBufferBytes is how much is gathered before it is written.
const outputBufferBytes = 64 << 10

// output writes a file from front to back.
type output struct {
	file   vfs.File
	spend  func(n int) error // told of each write before it happens
	buffer []byte
	size   int64 // what was written and what waits
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

// flush writes what waits.
func (o *output) flush() error {
	if len(o.buffer) == 0 {
		return nil
	}
	if err := o.spend(len(o.buffer)); err != nil {
		return err
	}
	if _, err := o.file.WriteAt(o.buffer, o.size-int64(len(o.buffer))); err != nil {
		return fmt.Errorf("write key sidecar: %w", err)
	}
	o.buffer = o.buffer[:0]
	return nil
}

// sidecarFile is a sidecar that is being written: the sections in the order of the file, the header
// at last.
type sidecarFile struct {
	fsys   vfs.FS
	name   string // under which it will appear
	out    output
	header header
	pages  pageWriter
	opts   Options
}

// createSidecar begins a file under its temporary name.
func createSidecar(fsys vfs.FS, name string, h header, spend func(int) error) (*sidecarFile,
	error) {
	file, err := fsys.Create(name + vfs.TemporarySuffix)
	if err != nil {
		return nil, fmt.Errorf("create key sidecar: %w", err)
	}
	s := &sidecarFile{fsys: fsys, name: name, header: h,
		out: output{file: file, spend: spend, size: headerBytes}}
	return s, nil
}

// begin begins a section.
func (s *sidecarFile) begin(of section, capacity int) *pageWriter {
	s.pages = pageWriter{
		out: &s.out, digest: s.header.identity.Digest, section: of, capacity: capacity,
		payload: s.pages.payload[:0],
	}
	return &s.pages
}

// end ends the section that was begun.
func (s *sidecarFile) end() error {
	err := s.pages.end()
	s.header.sections[s.pages.section-1] = s.pages.written
	return err
}

// publish makes the file durable, and gives it its name. The header is held against the rules of
// the reader first.
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

// rename gives the file its name, for good.
func (s *sidecarFile) rename() error {
	if err := s.fsys.Rename(s.name+vfs.TemporarySuffix, s.name); err != nil {
		return fmt.Errorf("rename key sidecar into place: %w", err)
	}
	if err := s.fsys.SyncDir(filepath.Dir(s.name)); err != nil {
		return fmt.Errorf("sync directory of key sidecar: %w", err)
	}
	return nil
}

// abandon removes what was written, after a failure before the rename. That it fails too changes
// nothing: a start removes it.
func (s *sidecarFile) abandon(cause error) error {
	if s.out.file != nil {
		cause = errors.Join(cause, s.out.file.Close())
	}
	_ = s.fsys.Remove(s.name + vfs.TemporarySuffix)
	return cause
}

// Options bound what the making of a sidecar takes.
type Options struct {
	// MemoryBytes is what may be held in memory while entries are sorted; default 64 MiB, and never
	// less than 16 MiB, with which any number of records can be merged at once. What fits needs no
	// temporary file.
	MemoryBytes int64
	// Commit is given the last step, which gives the file its name and syncs the directory, and
	// decides whether it is done: the data file may have been replaced meanwhile. An error of it is
	// returned as it is, and the file removed. Nil: it is done.
	Commit func(publish func() error) error
	// Data is the data file; if it is there, the sidecar is held against it once more before it
	// appears.
	Data io.ReaderAt
	// Spend is told of each n bytes that are read or written, before that happens, and waits when
	// it goes too fast. May be nil.
	Spend func(ctx context.Context, n int) error
}

// Defaults and bounds of Options.MemoryBytes.
const (
	memoryBytesDefault = 64 << 20
	memoryBytesMin     = 16 << 20
)

// fit returns how many entries are sorted in memory at once: each stands there twice.
func (o Options) fit() int {
	memory := o.MemoryBytes
	if memory == 0 {
		memory = memoryBytesDefault
	}
	return int(max(memory, memoryBytesMin) / (2 * entryBytes))
}

// Made tells of a sidecar that was made, and what it took: temporary files count too, a spool's
// pages once when they were written.
type Made struct {
	Counts
	ReadBytes, WrittenBytes int64
}

// meter counts bytes before they are read or written, and has Options.Spend wait for them. It ends
// the work when the context has ended.
type meter struct {
	ctx           context.Context
	spend         func(ctx context.Context, n int) error
	read, written int64
}

func (o Options) meter(ctx context.Context) *meter { return &meter{ctx: ctx, spend: o.Spend} }

func (m *meter) onRead(n int) error {
	m.read += int64(n)
	return m.wait(n)
}

func (m *meter) onWrite(n int) error {
	m.written += int64(n)
	return m.wait(n)
}

func (m *meter) wait(n int) error {
	if err := m.ctx.Err(); err != nil || m.spend == nil {
		return err
	}
	return m.spend(m.ctx, n)
}
