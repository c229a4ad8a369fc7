package vfs

// faultFile is a file that a Fault has opened.
type faultFile struct {
	File
	fault *Fault
}

// ReadAt implements File.
func (f *faultFile) ReadAt(p []byte, offset int64) (int, error) {
	if err := f.fault.fail(OpRead, f.Name()); err != nil {
		return 0, err
	}
	return f.File.ReadAt(p, offset)
}

// WriteAt implements File.
func (f *faultFile) WriteAt(p []byte, offset int64) (int, error) {
	failure := f.fault.check(OpWrite, f.Name())
	if failure == nil {
		return f.File.WriteAt(p, offset)
	}
	written := 0
	if short := min(failure.WriteBytes, len(p)); short > 0 {
		// Return the rule's error, because an error of the wrapped file would hide it.
		written, _ = f.File.WriteAt(p[:short], offset)
	}
	return written, failure.Err
}

// Size implements File.
func (f *faultFile) Size() (int64, error) {
	if err := f.fault.fail(OpSize, f.Name()); err != nil {
		return 0, err
	}
	return f.File.Size()
}

// Truncate implements File.
func (f *faultFile) Truncate(size int64) error {
	return f.fault.do(OpTruncate, f.Name(), func() error { return f.File.Truncate(size) })
}

// Sync implements File.
func (f *faultFile) Sync() error { return f.fault.do(OpSync, f.Name(), f.File.Sync) }

// Close implements File.
func (f *faultFile) Close() error {
	injected := f.fault.fail(OpClose, f.Name())
	if err := f.File.Close(); err != nil {
		return err
	}
	return injected
}
