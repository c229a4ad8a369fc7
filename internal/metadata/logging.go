package metadata

import (
	"log/slog"

	"heartwood.dev/heartwood/api/v1alpha1"
)

// ResolveLogLevel returns the log level of the brokers of a LogCluster, or nil if the LogCluster,
// which may be nil, sets none. An unknown level, which the API server does not accept, counts as
// none.
func ResolveLogLevel(cluster *v1alpha1.LogCluster) *slog.Level {
	if cluster == nil || cluster.Spec.Logging == nil {
		return nil
	}
	var level slog.Level
	if level.UnmarshalText([]byte(cluster.Spec.Logging.Level)) != nil {
		return nil
	}
	return &level
}
