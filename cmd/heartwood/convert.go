package main

import (
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"heartwood.dev/heartwood/internal/cli/usage"
	"heartwood.dev/heartwood/internal/convert"
	"heartwood.dev/heartwood/internal/manifest"
)

// exitLost is the exit code if a part of the manifests has no counterpart.
const exitLost = 3

// errLost is returned if a part of the manifests has no counterpart. The command has printed it.
var errLost = errors.New("a part of the manifests has no counterpart")

// convertCommand returns the command that runs internal/convert.
func convertCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "convert",
		Short: "Convert manifests of other operators",
		Args:  usage.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(&cobra.Command{
		Use:   "strimzi FILE...",
		Short: "Convert manifests of Strimzi to LogClusters, Topics and LogUsers",
		Long: `Convert manifests of Strimzi to LogClusters, Topics and LogUsers.

The command reads Kafka, KafkaNodePool, KafkaTopic and KafkaUser of kafka.strimzi.io/v1 and v1beta2,
and prints manifests. Name the Kafka and its KafkaNodePools in one call; FILE - is the standard
input. It connects to nothing and moves no records.

A part without a counterpart is a comment before its manifest, and is listed on the standard error.

Exit codes: 0 all is converted, 3 a part has no counterpart, 1 a file cannot be read or the result
is invalid, 2 incorrect use.`,
		Example: `  heartwood convert strimzi kafka.yaml topics.yaml > heartwood.yaml
  kubectl get kafka,kafkanodepool,kafkatopic,kafkauser -o yaml | heartwood convert strimzi -`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usage.Misused(cmd, errors.New("no FILE is named"))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			return convertStrimzi(cmd.InOrStdin(), args, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	})
	return cmd
}

func convertStrimzi(in io.Reader, files []string, out, errOut io.Writer) error {
	var objects []map[string]any
	var faults []error
	for _, file := range files {
		content, err := readFile(in, file)
		if err != nil {
			return err
		}
		found, wrong := manifest.Objects(file, content)
		objects, faults = append(objects, found...), append(faults, wrong...)
	}
	if len(faults) > 0 {
		return errors.Join(faults...)
	}
	if len(objects) == 0 {
		return errors.New("the files contain no objects")
	}
	documents, err := convert.Strimzi(objects)
	if err != nil {
		return err
	}
	if err := convert.Write(out, documents); err != nil {
		return err
	}
	lost := convert.Lost(documents)
	for _, remark := range lost {
		_, _ = fmt.Fprintln(errOut, remark)
	}
	if len(lost) > 0 {
		return errLost
	}
	return nil
}

func readFile(in io.Reader, file string) ([]byte, error) {
	if file == "-" {
		return io.ReadAll(in)
	}
	return os.ReadFile(file)
}
