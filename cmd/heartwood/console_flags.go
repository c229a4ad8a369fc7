package main

import (
	"crypto/tls"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"heartwood.dev/heartwood/internal/cli/usage"
	"heartwood.dev/heartwood/internal/tlsconfig"
)

// Values of --auth.
const (
	authNone       = "none"
	authKubernetes = "kubernetes"
)

func (f *consoleFlags) add(cmd *cobra.Command) {
	f.addresses.Add(cmd)
	set := cmd.Flags()
	set.StringSliceVar(&f.bootstrap, "bootstrap", nil,
		"`HOST:PORT,...` the brokers' Kafka listeners; without them, messages, groups and settings "+
			"are not shown")
	set.StringVar(&f.userDir, "user-dir", "", "`DIR` the keys of the Secret of a LogUser "+
		"as files, for listeners with authentication; --bootstrap is then optional")
	set.StringVar(&f.auth, "auth", authNone, "`MODE` how users are authenticated: none, or "+
		"kubernetes by tokens")
	set.StringVar(&f.cluster, "logcluster", "", "`NAMESPACE/NAME` the LogCluster, with "+
		"--auth=kubernetes: the permissions of users refer to it")
	set.Var(address(&f.listen, "127.0.0.1:9645"), "http", "`HOST:PORT` serve the console here")
	set.StringVar(&f.certificate, "tls-cert", "", "`FILE` certificate of the console, "+
		"which then serves HTTPS; it is read again for each connection")
	set.StringVar(&f.key, "tls-key", "", "`FILE` private key of --tls-cert")
	set.StringVar(&f.options.Cluster, "name", "", "`NAME` title of the cluster, shown on each page")
	set.StringSliceVar(&f.hosts, "allow-host", nil,
		"`NAME,...` hosts under which browsers open the console, besides localhost and addresses")
	set.StringVar(&f.options.PathPrefix, "path-prefix", "",
		"`PATH` a proxy serves the console below this path and does not remove it")
	set.BoolVar(&f.kubernetes, "kubernetes", false, "serve the LogClusters of the Kubernetes "+
		"cluster in which the console runs")
	set.StringSliceVar(&f.namespaces, "namespaces", nil, "`NAMESPACE,...` serve only LogClusters "+
		"in these namespaces, with --kubernetes (default: all)")
	set.StringVar(&f.serviceAccount, "service-account", "", "`NAMESPACE/NAME` the console's "+
		"ServiceAccount, with --kubernetes: its tokens are sent to secured LogClusters")
	set.StringVar(&f.logUser, "log-user", "", "`NAME` a LogUser, with --kubernetes: its Secret "+
		"is used for listeners that accept no tokens of ServiceAccounts")
}

// check reports flags that cannot be combined.
func (f *consoleFlags) check(cmd *cobra.Command) error {
	if p := f.options.PathPrefix; p != "" && !strings.HasPrefix(p, "/") {
		return usage.Misused(cmd, fmt.Errorf("invalid argument %q for --path-prefix: begin with /", p))
	}
	if f.auth != authNone && f.auth != authKubernetes {
		return usage.Misused(cmd, fmt.Errorf("invalid argument %q for --auth: give none or kubernetes",
			f.auth))
	}
	if (f.certificate == "") != (f.key == "") {
		return usage.Misused(cmd, errors.New("give both --tls-cert and --tls-key"))
	}
	for _, name := range map[bool][]string{
		true:  {"address", "bootstrap", "user-dir", "logcluster", "ca-file", "token-file", "certificates"},
		false: {"namespaces", "service-account", "log-user"},
	}[f.kubernetes] {
		if cmd.Flags().Changed(name) {
			with := map[bool]string{true: "without", false: "with"}[f.kubernetes]
			return usage.Misused(cmd, fmt.Errorf("flag --%s is used %s --kubernetes only", name, with))
		}
	}
	if f.kubernetes {
		return f.required(cmd, "service-account", f.serviceAccount)
	}
	if f.auth == authKubernetes {
		return f.required(cmd, "logcluster", f.cluster)
	}
	return nil
}

// required returns an error for a flag whose value is not NAMESPACE/NAME.
func (f *consoleFlags) required(cmd *cobra.Command, flag, value string) error {
	if _, _, ok := namespaced(value); !ok {
		return usage.Misused(cmd, fmt.Errorf("invalid argument %q for --%s: give NAMESPACE/NAME", value,
			flag))
	}
	return nil
}

// namespaced parses NAMESPACE/NAME.
func namespaced(text string) (namespace, name string, ok bool) {
	namespace, name, ok = strings.Cut(text, "/")
	return namespace, name, ok && namespace != "" && name != "" && !strings.Contains(name, "/")
}

// tls returns the TLS configuration of the console's port.
func (f *consoleFlags) tls() *tls.Config {
	return tlsconfig.ServeFrom(func() (*tls.Certificate, error) {
		pair, err := tls.LoadX509KeyPair(f.certificate, f.key)
		if err != nil {
			return nil, fmt.Errorf("read the certificate of the console: %w", err)
		}
		return &pair, nil
	})
}
