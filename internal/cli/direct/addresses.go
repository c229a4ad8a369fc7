package direct

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"heartwood.dev/heartwood/internal/cli/usage"
	"heartwood.dev/heartwood/internal/remote"
)

// httpDefault is the default HTTP address of heartwood dev, and of a broker for a client in the
// same pod.
const httpDefault = "127.0.0.1:9644"

// certificatesDefault is the certificate directory in a broker pod of a secured LogCluster.
const certificatesDefault = "/etc/heartwood/certificates"

// Addresses contains the flags of commands that send HTTP requests to brokers. It also implements
// pflag.Value for flag --address.
type Addresses struct {
	list     []string
	security remote.Security
}

// Type implements pflag.Value.
func (a *Addresses) Type() string { return "HOST:PORT" }

// String implements pflag.Value.
func (a *Addresses) String() string { return strings.Join(a.list, ",") }

// Set implements pflag.Value.
func (a *Addresses) Set(text string) error {
	for one := range strings.SplitSeq(text, ",") {
		address, err := remote.ParseAddress(one)
		if err != nil {
			return err
		}
		a.list = append(a.list, address)
	}
	return nil
}

// OrDefault returns the addresses in the flag, or httpDefault if the flag was not set.
func (a *Addresses) OrDefault() []string {
	if len(a.list) == 0 {
		return []string{httpDefault}
	}
	return a.list
}

// ask calls f with the addresses. If the process at an address runs no broker itself, but responds
// with the addresses of its brokers, like the parent process of heartwood dev --processes, ask
// calls f again with those addresses.
func (a *Addresses) ask(f func(addresses []string) error) error {
	err := f(a.OrDefault())
	var refused *remote.Refused
	if errors.As(err, &refused) && len(refused.Addresses) > 0 {
		return f(refused.Addresses)
	}
	return err
}

// Add adds the flags to a command.
func (a *Addresses) Add(cmd *cobra.Command) {
	cmd.Flags().Var(a, "address",
		"`HOST:PORT` HTTP server of a broker; repeatable (default "+
			httpDefault+")")
	a.addSecurity(cmd)
}

// addSecurity adds the flags for secured LogClusters.
func (a *Addresses) addSecurity(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&a.security.CAFile, "ca-file", "", "`FILE` connect with TLS, and verify "+
		"brokers by this CA: key peer-ca.crt of Secret CLUSTER-ca-cert")
	flags.StringVar(&a.security.TokenFile, "token-file", "", "`FILE` send this token of a "+
		"ServiceAccount with audience heartwood/NAMESPACE/CLUSTER")
	flags.StringVar(&a.security.Certificates, "certificates", "", "`DIR` connect with TLS by the "+
		"certificate of the broker in whose pod the command runs (default "+
		certificatesDefault+" if it exists)")
}

// Client returns an HTTP client that uses the flags.
func (a *Addresses) Client(cmd *cobra.Command) (*remote.Client, error) {
	security := a.security
	if security.CAFile == "" && security.TokenFile == "" && security.Certificates == "" {
		if _, err := os.Stat(certificatesDefault); err == nil {
			security.Certificates = certificatesDefault
		}
	}
	if security.CAFile == "" && security.Certificates != "" {
		name, err := os.Hostname()
		if err != nil {
			return nil, fmt.Errorf("read the name of the pod: %w", err)
		}
		if security.Broker, err = Ordinal(name); err != nil {
			return nil, usage.Misused(cmd, fmt.Errorf("invalid argument %q for --certificates: host %s is "+
				"not the pod of a broker", security.Certificates, name))
		}
	}
	client, err := remote.NewClient(security)
	if err != nil {
		return nil, usage.Misused(cmd, err)
	}
	return client, nil
}

// addOne adds flag --address to a command that uses only one address.
func (a *Addresses) addOne(cmd *cobra.Command) {
	cmd.Flags().Var(a, "address", "`HOST:PORT` HTTP server of a broker (default "+httpDefault+")")
	a.addSecurity(cmd)
}
