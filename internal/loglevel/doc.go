// Package loglevel contains the level of a process's log, which may change while the process runs.
//
//   - Level is the level. Loggers use it as slog.HandlerOptions.Level. It begins with the value of
//     flag --log-level. Brokers set it from spec.logging of their LogCluster.
//   - File sets a Level from a file, which the operator reads regularly: the file is a ConfigMap
//     that the chart mounts.
//
// Level may be used concurrently. File belongs to one goroutine.
package loglevel
