// Package loglevel contains the log level of a process, which can change while the process runs.
//
//   - Level is the log level. Loggers use it as slog.HandlerOptions.Level. Its initial value is the
//     value of flag --log-level. Brokers set it from spec.logging in their LogCluster.
//   - File sets a Level from a file that the operator reads regularly. The file belongs to a
//     ConfigMap that the chart mounts.
//
// Level may be used concurrently. File belongs to one goroutine.
package loglevel
