package broker

import "heartwood.dev/heartwood/internal/vfs"

// connectionsDefault is the maximum number of client connections if the limit on file descriptors
// permits that many.
const connectionsDefault = 10_000

// raiseOpenFiles raises the limit on file descriptors to the maximum that the process is permitted,
// and returns the limit in effect. If raising the limit fails, the broker still starts, because the
// limit may be sufficient.
func (b *Broker) raiseOpenFiles() vfs.OpenFilesLimit {
	limit, err := vfs.RaiseOpenFiles()
	if err != nil {
		b.logger.Warn("failed to raise the limit of open files", "limit", limit.Soft, "error", err)
		return limit
	}
	b.logger.Info("limit of open files", "limit", limit.Soft, "hardLimit", limit.Hard)
	return limit
}

// connectionsMax returns the maximum number of client connections. They use at most half of the
// file descriptors, so that the broker can always reopen the files of partitions, which are closed
// while idle.
func connectionsMax(limit vfs.OpenFilesLimit) int {
	if limit.Soft == 0 { // reading the limit failed
		return connectionsDefault
	}
	return int(max(1, min(connectionsDefault, limit.Soft/2)))
}
