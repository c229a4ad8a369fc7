package inspect

import (
	"errors"
	"io/fs"

	"heartwood.dev/heartwood/internal/logstore/clean"
	"heartwood.dev/heartwood/internal/logstore/segment"
)

// deadNote is the note about a .dead file that was computed for other bytes than the segment's. A
// truncation, or a crash during a pass, leaves such a file.
const deadNote = "the file belongs to other bytes of the segment and is ignored; " +
	"the next pass replaces it"

// checkDead checks the .dead file of a segment (docs/internals/format/dead.md), if the segment has
// one.
func (v *verifier) checkDead(f file, dataBytes int64) error {
	path := f.with(segment.DeadExtension)
	if _, err := v.fsys.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	content, ok, err := v.readLimited(path, deadBytesMax)
	if err != nil || !ok {
		return err
	}
	switch dead, err := clean.DecodeDeadFile(content); {
	case err != nil:
		v.find(path, 0, "%v", err)
	case dead.Base != f.base || dead.LogBytes != dataBytes:
		v.note(path, deadNote)
	}
	return nil
}

// deadBytesMax is the maximum size of a .dead file that is read. A broker ignores larger files.
const deadBytesMax = 256 << 20
