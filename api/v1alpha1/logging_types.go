package v1alpha1

// Logging configures the log of the brokers. A change takes effect within seconds, without a
// restart.
type Logging struct {
	// Level is Debug, Info, Warn or Error: brokers log messages of this level and of higher ones.
	// Until a broker has read the LogCluster, it logs as without this field. Default Info, and in
	// heartwood dev the value of --log-level.
	// +optional
	Level LogLevel `json:"level,omitempty"`
}

// LogLevel is a level of log messages.
// +kubebuilder:validation:Enum=Debug;Info;Warn;Error
type LogLevel string

// The levels, the most verbose first.
const (
	LogDebug LogLevel = "Debug"
	LogInfo  LogLevel = "Info"
	LogWarn  LogLevel = "Warn"
	LogError LogLevel = "Error"
)
