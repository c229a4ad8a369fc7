package main

import (
	"bytes"
	"context"
	"strings"
	"testing"

	"heartwood.dev/heartwood/internal/cli"
	"heartwood.dev/heartwood/internal/cli/direct"
)

func TestExitCodes(t *testing.T) {
	tests := []struct {
		name    string
		args    []string
		code    int
		message string // expected in standard error, or in standard output if code is 0
	}{
		{"help", []string{"--help"}, 0, "heartwood dev -f config/samples"},
		{"without arguments", nil, 0, "Usage:"},
		{"version", []string{"--version"}, 0, "heartwood version dev"},
		{"unknown command", []string{"cleen"}, 2, `unknown command or argument "cleen"`},
		{"unknown flag", []string{"dev", "--port", "9"}, 2, "unknown flag: --port"},
		{"flag of the wrong type", []string{"dev", "--brokers", "many"}, 2, "--brokers"},
		{"flag out of range", []string{"dev", "--brokers", "0"}, 2,
			"invalid argument 0 for --brokers: give 1 to 100"},
		{"unexpected argument", []string{"dev", "topics.yaml"}, 2, `"topics.yaml"`},
		{"log level", []string{"dev", "--log-level", "loud"}, 2,
			`invalid log level "loud": give debug, info, warn or error`},
		{"required flag", []string{"broker", "--cluster", "demo"}, 2,
			"flag --namespace is required"},
		{"all missing required flags", []string{"broker", "--cluster", "demo"}, 2,
			"flag --advertise is required: where clients reach"},
		{"pod without a number", []string{
			"broker", "--cluster", "demo", "--namespace", "n", "--pod-name", "demo", "--advertise",
			"a:1",
		}, 2, `invalid argument "demo" for --pod-name`},
		{"address without a port", []string{"broker", "--listen", "here"}, 2,
			`"here" for "--listen" flag: want HOST:PORT`},
		{"port out of range", []string{"operator", "--metrics", ":70000"}, 2,
			`":70000" for "--metrics" flag: want a port from 0 to 65535`},
		{"operator without an image", []string{"operator"}, 2, "flag --image is required"},
		{"log without a path", []string{"log", "dump"}, 2, "give at least one PATH"},
		{"clean without a directory", []string{"log", "clean"}, 2, "give at least one PATH"},
		{"clean of an absent path", []string{"log", "clean", "no/such/path-0"}, 1, "no/such"},
		{"clean of another directory", []string{"log", "clean", "."}, 1,
			"its name must be TOPIC-NUMBER"},
		{"clean with an invalid time", []string{"log", "clean", "--now", "noon", "a-0"}, 2,
			`invalid argument "noon" for --now`},
		{"all invalid flags of clean",
			[]string{"log", "clean", "--memory", "5", "--workers", "0", "--min-lag", "-1s", "a-0"},
			2, "invalid argument 0 for --workers"},
		{"clean with too low a rate", []string{"log", "clean", "--io-rate", "1/s", "a-0"}, 2,
			"at least 1Ki/s"},
		{"clean without a topic", []string{"clean"}, 2, "give one TOPIC"},
		{"scrub of two topics", []string{"scrub", "a", "b"}, 2, "give one TOPIC, or none"},
		{"scrub without a broker", []string{"scrub", "--address", "127.0.0.1:1"}, 1,
			"connect to broker at 127.0.0.1:1"},
		{"convert without a file", []string{"convert", "strimzi"}, 2, "no FILE is named"},
		{"convert of an absent file", []string{"convert", "strimzi", "no/such.yaml"}, 1, "no/such.yaml"},
		{"convert of another format", []string{"convert", "strimzi", "main_test.go"}, 1,
			"main_test.go"},
		{"convert with losses", []string{"convert", "strimzi",
			"../../internal/convert/testdata/old.yaml"}, 3, "spec.kafka.storage"},
		{"clean of two topics", []string{"clean", "a", "b"}, 2, "give one TOPIC"},
		{"clean with an invalid partition", []string{"clean", "a", "--partition", "-1"}, 2,
			"invalid argument -1 for --partition"},
		{"clean with an invalid address", []string{"clean", "a", "--address", "here"}, 2,
			"want HOST:PORT, such as 127.0.0.1:9644"},
		{"clean without a broker", []string{"clean", "a", "--address", "127.0.0.1:1"}, 1,
			"connect to broker at 127.0.0.1:1: "},
		{"topics without a broker", []string{"topics", "--address", "http://127.0.0.1:1"}, 1,
			"connect to broker at 127.0.0.1:1: "},
		{"partitions without a broker", []string{"partitions", "--address", "127.0.0.1:1"}, 1,
			"connect to broker at 127.0.0.1:1: "},
		{"verify of an absent path", []string{"log", "verify", "no/such/path"}, 1, "no/such/path"},
		{"bench without a name", []string{"bench"}, 0, "purgatory"},
		{"unknown bench", []string{"bench", "sundial"}, 2,
			`unknown command or argument "sundial"`},
		{"bench purgatory", []string{"bench", "purgatory", "--requests", "100", "--timeout", "20ms",
			"--json"}, 0, `"requests":100,`},
		{"all invalid flags of bench produce",
			[]string{"bench", "produce", "--acks", "2", "--codec", "brotli", "--records", "0"}, 2,
			`codec "brotli": must be none, gzip`},
		{"bench consume with an address without a port",
			[]string{"bench", "consume", "--bootstrap", "kafka"}, 2,
			`bootstrap address "kafka": want HOST:PORT`},
		{"all invalid flags of bench purgatory",
			[]string{"bench", "purgatory", "--keys", "0", "--pct75", "1ms"}, 2,
			"for --keys: give 1 to --of-keys"},
		{"bench purgatory of a removed kind", []string{"bench", "purgatory", "--kind", "heap"}, 2,
			"this kind was removed"},
		{"bench with an unknown codec", []string{"bench", "append", "--codec", "brotli"}, 2,
			`unknown codec "brotli": must be one of none, gzip`},
		{"bench with a level out of range",
			[]string{"bench", "append", "--codec", "gzip", "--level", "10"}, 2,
			"gzip level 10: must be 1 to 9"},
		{"bench with a level and no codec", []string{"bench", "append", "--level", "1"}, 2,
			"none takes no level"},
		{"bench with records larger than their batch",
			[]string{"bench", "append", "--batch-bytes", "100"},
			2, "record bytes 1000: must be 40 to the batch bytes, 100"},
		{"plan", []string{"plan", "--keys", "200M", "--record-size", "5Ki", "--update-rate",
			"1k/s"}, 0, "a partition's pass is due"},
		{"plan as JSON", []string{"plan", "--keys", "1k", "--record-size", "1k", "--json"}, 0,
			`{"stored_record_bytes":1000,`},
		{"plan without required flags", []string{"plan"}, 2, "flag --keys is required"},
		{"plan with an invalid size", []string{"plan", "--keys", "1", "--record-size", "5KB"}, 2,
			`"5KB" for "--record-size" flag: want a size, such as 5Ki`},
		{"plan with an invalid rate", []string{"plan", "--update-rate", "1/min"}, 2,
			"want a rate, such as 300/s"},
		{"plan with a negative number", []string{"plan", "--keys", "-5"}, 2,
			"want a number, such as 200M"},
		{"plan with an invalid percentage", []string{"plan", "--min-dirty-percent", "101"}, 2,
			"want a percentage from 0 to 100"},
		{"all faults of a plan",
			[]string{"plan", "--keys", "1", "--record-size", "1k", "--replicas", "3", "--brokers",
				"2", "--min-dirty-percent", "100%"}, 2, "at 100 no pass is ever due"},
		{"console with unknown users", []string{"console", "--auth", "ldap"}, 2,
			"give none or kubernetes"},
		{"console with users of no LogCluster", []string{"console", "--auth", "kubernetes"}, 2,
			"for --logcluster: give NAMESPACE/NAME"},
		{"console on Kubernetes with an address", []string{"console", "--kubernetes", "--address",
			"127.0.0.1:9644"}, 2, "flag --address is used without --kubernetes only"},
		{"console on Kubernetes without an account", []string{"console", "--kubernetes"}, 2,
			"for --service-account: give NAMESPACE/NAME"},
		{"console with a LogUser", []string{"console", "--log-user", "a"}, 2,
			"flag --log-user is used with --kubernetes only"},
		{"console with half a certificate", []string{"console", "--tls-cert", "a"}, 2,
			"give both --tls-cert and --tls-key"},
		{"console below a relative path", []string{"console", "--path-prefix", "a"}, 2,
			"begin with /"},
		{"absent manifest", []string{"dev", "-f", "no/such/file.yaml"}, 2,
			"no/such/file.yaml"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			var out, errOut bytes.Buffer
			code := run(context.Background(), test.args, &out, &errOut)
			if code != test.code {
				t.Errorf("got exit code %d, want %d; standard error: %s", code, test.code,
					errOut.String())
			}
			output := errOut.String()
			if test.code == 0 {
				output = out.String()
			}
			if !strings.Contains(output, test.message) {
				t.Errorf("%q does not contain %q", output, test.message)
			}
		})
	}
}

func TestOrdinal(t *testing.T) {
	for name, want := range map[string]int32{"demo-broker-0": 0, "a-b-c-17": 17} {
		if got, err := direct.Ordinal(name); err != nil || got != want {
			t.Errorf("ordinal(%q) = %d, %v; want %d", name, got, err, want)
		}
	}
	for _, name := range []string{"", "demo", "demo-", "demo-x", "demo--1x", "demo-99999999999"} {
		if got, err := direct.Ordinal(name); err == nil {
			t.Errorf("ordinal(%q) = %d, want an error", name, got)
		}
	}
}

// TestPluginExitCodes checks that the binary has the commands of kubectl heartwood when it is
// started under the plugin's name.
func TestPluginExitCodes(t *testing.T) {
	for _, c := range []struct {
		args []string
		code int
		text string
	}{
		{[]string{"--help"}, 0, "kubectl heartwood status"},
		{[]string{"cleen"}, 2, `unknown command or argument "cleen"`},
		{[]string{"why"}, 2, "see 'kubectl heartwood why --help'"},
		{[]string{"status", "--kubeconfig", "no/such/file"}, 1, "no/such/file"},
		{[]string{"move", "a", "b", "--kubeconfig", "no/such/file"}, 1, "no/such/file"},
	} {
		var out, errOut bytes.Buffer
		code := execute(t.Context(), cli.Root(), c.args, &out, &errOut)
		if all := out.String() + errOut.String(); code != c.code || !strings.Contains(all, c.text) {
			t.Errorf("%v: exit code %d, want %d; output %q", c.args, code, c.code, all)
		}
	}
}
