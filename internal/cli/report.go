package cli

import (
	"archive/zip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/internal/cli/usage"
	"heartwood.dev/heartwood/internal/console/connect"
	"heartwood.dev/heartwood/internal/operator/render"
)

func reportCommand(f *flags) *cobra.Command {
	var account account
	file := ""
	cmd := &cobra.Command{
		Use:   "report",
		Short: "Write a zip file with everything that is needed to analyse a problem",
		Long: `Write a zip file with the resources, events and logs of a LogCluster, the reports and metrics of
its brokers, and the Deployment and logs of the operator.

It contains no records, and of Heartwood's Secrets only the names and sizes of their keys: there is
no option to include more. It leaves out objects of other applications, and of other containers in
the pods the environment, the arguments, and the requests and commands of probes and hooks. It does
contain names of topics, users, nodes and groups; the logs of the operator also name those of its
other LogClusters. A log has at most 16 MiB, the newest. What you may not read, and what could not
be read, is listed in errors.txt in the file.`,
		Args: usage.NoArgs,
	}
	account.add(cmd)
	cmd.Flags().StringVar(&file, "file", "",
		"`FILE` write the report here (default: heartwood-CLUSTER-TIME.zip)")
	cmd.RunE = f.run(func(ctx context.Context, s *session, _ []string) error {
		cluster, err := s.logCluster(ctx)
		if err != nil {
			return err
		}
		if file == "" {
			file = "heartwood-" + cluster.Name + "-" + time.Now().UTC().Format("20060102T150405Z") +
				".zip"
		}
		out, err := os.OpenFile(file, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
		if err != nil {
			return err
		}
		a := &archive{zip: zip.NewWriter(out), now: time.Now()}
		s.collect(ctx, a, cluster, account)
		a.add("errors.txt", []byte(strings.Join(a.faults, "\n")+"\n"))
		if err := errors.Join(a.err, a.zip.Close(), out.Close()); err != nil {
			return fmt.Errorf("write %s: %w", file, err)
		}
		if s.json() {
			return printJSON(s.out, map[string]any{"file": file, "missing": len(a.faults)})
		}
		_, err = fmt.Fprintf(s.out, "%s written; parts that are missing: %d\n", file, len(a.faults))
		return err
	})
	return cmd
}

// archive is a zip file; err is the first error of a write.
type archive struct {
	zip    *zip.Writer
	now    time.Time
	faults []string // descriptions of the parts that could not be read
	err    error
}

func (a *archive) create(name string) io.Writer {
	if a.err != nil {
		return io.Discard
	}
	var file io.Writer
	file, a.err = a.zip.CreateHeader(&zip.FileHeader{Name: name, Method: zip.Deflate,
		Modified: a.now})
	if a.err != nil {
		return io.Discard
	}
	return file
}

func (a *archive) add(name string, content []byte) {
	if _, err := a.create(name).Write(content); err != nil && a.err == nil {
		a.err = err
	}
}

// missing adds the description of a part that could not be read.
func (a *archive) missing(name string, err error) {
	a.faults = append(a.faults, name+": "+err.Error())
}

// brokerPaths are the paths that are requested from each broker for a report.
var brokerPaths = []string{"/api/v1/partitions", "/api/v1/placement", "/api/v1/transactions"}

// collectBrokers adds the brokers' reports and metrics.
func (s *session) collectBrokers(ctx context.Context, a *archive, cluster *v1alpha1.LogCluster,
	account account) {
	http, err := s.http(ctx, cluster, account)
	if err != nil {
		a.missing("brokers", err)
		return
	}
	for _, id := range connect.BrokerIDs(cluster) {
		directory := fmt.Sprintf("brokers/%d", id)
		address := render.HTTPAddress(cluster.Name, s.namespace, id)
		for _, request := range brokerPaths {
			name := directory + "/" + path.Base(request) + ".json"
			var content json.RawMessage
			if err := http.Get(ctx, address, request, &content); err != nil {
				a.missing(name, err)
				continue
			}
			a.add(name, content)
		}
		content, err := http.Text(ctx, address, "/metrics")
		if err != nil {
			a.missing(directory+"/metrics.txt", err)
			continue
		}
		a.add(directory+"/metrics.txt", content)
	}
}
