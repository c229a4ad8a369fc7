package broker

import "heartwood.dev/heartwood/internal/vfs"

// connectionsDefault is the maximum number of client connections if the limit of file descriptors
// allows it.
const connectionsDefault = 10_000

// raiseOpenFiles raises the limit of file descriptors as far as the process may, and returns the
// limit in effect. The broker starts even if that fails: the limit may suffice.
func (b *Broker) raiseOpenFiles() vfs.OpenFilesLimit {
	limit, err := vfs.RaiseOpenFiles()
	if err != nil {
		b.logger.Warn("failed to raise the limit of open files", "limit", limit.Soft, "error", err)
		return limit
	}
	b.logger.Info("limit of open files", "limit", limit.Soft, "hardLimit", limit.Hard)
	return limit
}

// connectionsMax returns the maximum number of client connections: at most half of the file
// descriptors. Partitions whose files are closed while they are idle need the others. Without this
// bound, connections could use up all descriptors, and such a partition could not be read.
func connectionsMax(limit vfs.OpenFilesLimit) int {
	if limit.Soft == 0 { // the limit could not be read
		return connectionsDefault
	}
	return int(max(1, min(connectionsDefault, limit.Soft/2)))
}
