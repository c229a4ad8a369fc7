package datadir

import (
	"fmt"
	"path/filepath"

	"heartwood.dev/heartwood/internal/logstore/segmentlist"
	"heartwood.dev/heartwood/internal/vfs"
)

// LossFile states that the log has lost records that were on the disk, and how this was detected.
const LossFile = "records.lost"

// loss is the content of records.lost.
type loss struct {
	cause string
	// incarnation is the replica incarnation id that the metadata contained when the broker first
	// detected the loss. It is set later than cause; stamped is true once it is set.
	incarnation string
	stamped     bool
}

// Loss returns the reason why the log is known to have lost records that were on the disk, or "" if
// no loss is known. The loss remains known, even after a restart, until SetLoss removes it.
func (n *Notes) Loss() string {
	if known := n.loss.Load(); known != nil {
		return known.cause
	}
	return ""
}

// LossOf returns the replica incarnation id that StampLoss has stored. ok is false if there is no
// loss, or if no id was stored since the loss was found.
func (n *Notes) LossOf() (incarnation string, ok bool) {
	if known := n.loss.Load(); known != nil {
		return known.incarnation, known.stamped
	}
	return "", false
}

// SetLoss durably stores the reason why the log is known to have lost records. The value "" removes
// the loss, because the log was emptied, or a user continues with the remaining records.
func (n *Notes) SetLoss(cause string) error {
	if cause != "" {
		return n.writeLoss(loss{cause: cause})
	}
	if err := n.remove(LossFile); err != nil {
		return err
	}
	if err := n.fs.SyncDir(n.dir); err != nil {
		return fmt.Errorf("remove %s: %w: %w", LossFile, segmentlist.ErrStorage, err)
	}
	n.loss.Store(nil)
	return nil
}

// StampLoss durably stores the replica incarnation id that the metadata contains before it takes
// the loss into account. The id may be "". Afterwards the caller reports the loss.
func (n *Notes) StampLoss(incarnation string) error {
	return n.writeLoss(loss{cause: n.Loss(), incarnation: incarnation, stamped: true})
}

func (n *Notes) writeLoss(found loss) error {
	content := "version: 0\ncause: " + found.cause + "\n"
	if found.stamped {
		content += "replica: " + found.incarnation + "\n"
	}
	if err := n.write(LossFile, []byte(content)); err != nil {
		return err
	}
	n.loss.Store(&found)
	return nil
}

// readLoss reads the stored loss, or returns nil if there is none.
func readLoss(fsys vfs.FS, dir string) (*loss, error) {
	values, err := readFields(fsys, filepath.Join(dir, LossFile))
	if values == nil || err != nil {
		return nil, err
	}
	found := &loss{cause: values["cause"]}
	if found.incarnation, found.stamped = values["replica"]; found.cause == "" {
		return nil, fmt.Errorf("read %s: %w: no cause", LossFile, ErrMalformed)
	}
	return found, nil
}
