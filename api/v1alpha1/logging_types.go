package v1alpha1

// Logging configures the brokers' log. A change takes effect within seconds, without a restart.
type Logging struct {
	// Level is Debug, Info, Warn or Error. Brokers log messages of this level and of higher levels.
	// Until a broker has read the LogCluster, it uses the default level. Default: Info, and in
	// heartwood dev the value of --log-level.
	// +optional
	Level LogLevel `json:"level,omitempty"`
}

// LogLevel is a level of log messages.
// +kubebuilder:validation:Enum=Debug;Info;Warn;Error
type LogLevel string

// The levels, with the most verbose first.
const (
	LogDebug LogLevel = "Debug"
	LogInfo  LogLevel = "Info"
	LogWarn  LogLevel = "Warn"
	LogError LogLevel = "Error"
)
