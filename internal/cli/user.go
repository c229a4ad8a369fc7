package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"

	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/internal/cli/usage"
	"heartwood.dev/heartwood/internal/credentials"
)

func userCommand(f *flags) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "user",
		Short: "Write the client configuration of a LogUser; rotate its credentials",
		Args:  usage.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(userConfigCommand(f), userRotateCommand(f))
	return cmd
}

func userConfigCommand(f *flags) *cobra.Command {
	format, directory := "", ""
	cmd := &cobra.Command{
		Use:   "config USER",
		Short: "Write the configuration of a client of a LogUser, from its Secret",
		Long: `Write the configuration of a client that connects as a LogUser, from the LogUser's Secret.

Without --directory the command prints one configuration: for Java clients, or with --format
librdkafka for kcat and clients of librdkafka; with -o json as the string content. With --directory
it writes all files of the Secret into the directory, readable by you only. They contain
credentials.`,
		Example: `  kubectl heartwood user config app > client.properties
  kubectl heartwood user config app --directory app && kcat -F app/librdkafka.conf -L`,
		Args: exactArgs("one USER"),
	}
	cmd.Flags().StringVar(&format, "format", "java", "`FORMAT` java or librdkafka")
	cmd.Flags().StringVar(&directory, "directory", "", "`DIR` write all files here")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		key, known := map[string]string{"java": credentials.KeyJava,
			"librdkafka": credentials.KeyLibrdkafka}[format]
		if !known {
			return misused(cmd, "invalid argument %q for --format: give java or librdkafka", format)
		}
		return f.run(func(ctx context.Context, s *session, args []string) error {
			secret := &corev1.Secret{}
			name := v1alpha1.UserSecretName(args[0])
			if err := s.get(ctx, "Secret", name, secret); err != nil {
				return err
			}
			if directory != "" {
				return s.writeFiles(directory, secret.Data)
			}
			content, found := secret.Data[key]
			if !found {
				return fmt.Errorf("secret %s has no key %s: the LogUser has no listener yet, or no "+
					"credentials", name, key)
			}
			if s.json() {
				return printJSON(s.out, map[string]string{"user": args[0], "format": format,
					"content": string(content)})
			}
			_, err := s.out.Write(content)
			return err
		})(cmd, args)
	}
	return cmd
}

// writeFiles writes the files of a Secret to a directory. In the configuration file for librdkafka,
// it replaces the path at which a pod would mount the files with the directory.
func (s *session) writeFiles(directory string, files map[string][]byte) error {
	if err := os.MkdirAll(directory, 0o700); err != nil {
		return err
	}
	absolute, err := filepath.Abs(directory)
	if err != nil {
		return err
	}
	names := slices.Sorted(maps.Keys(files))
	for _, name := range names {
		if !filepath.IsLocal(name) || filepath.Base(name) != name {
			return fmt.Errorf("write %q: the key of the Secret is not the name of a file", name)
		}
		content := files[name]
		if name == credentials.KeyLibrdkafka {
			content = credentials.Relocate(content, absolute)
		}
		if err := writePrivate(filepath.Join(directory, name), content); err != nil {
			return err
		}
	}
	if s.json() {
		return printJSON(s.out, map[string]any{"directory": absolute, "files": names})
	}
	_, err = fmt.Fprintf(s.out, "%d files written to %s\n", len(names), directory)
	return err
}

// writePrivate replaces a file with one that only the user can read, whatever the mode of the
// previous file is. It refuses to replace anything but a regular file; for example, it does not
// replace a symbolic link.
func writePrivate(file string, content []byte) error {
	info, err := os.Lstat(file)
	switch {
	case err == nil && !info.Mode().IsRegular():
		return fmt.Errorf("write %s: it exists and is not a regular file", file)
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return err
	}
	temporary, err := os.CreateTemp(filepath.Dir(file), ".heartwood-*") // mode 0600
	if err != nil {
		return err
	}
	_, err = temporary.Write(content)
	err = errors.Join(err, temporary.Sync(), temporary.Close())
	if err == nil {
		err = os.Rename(temporary.Name(), file)
	}
	if err != nil {
		err = errors.Join(err, os.Remove(temporary.Name()))
	}
	return err
}

func userRotateCommand(f *flags) *cobra.Command {
	var consent consent
	cmd := &cobra.Command{
		Use:   "rotate USER",
		Short: "Request a new password or certificate for a LogUser",
		Long: `Request a new password or certificate for a LogUser: its Secret changes.

The previous password remains valid for an hour, a previous certificate until its expiry. Clients
that read the Secret must reload it in this time.

The command refuses if spec.authentication.passwordFrom is set: change the Secret that it names.`,
		Args: exactArgs("one USER"),
	}
	consent.add(cmd)
	cmd.RunE = f.run(func(ctx context.Context, s *session, args []string) error {
		user := &v1alpha1.LogUser{}
		if err := s.get(ctx, "LogUser", args[0], user); err != nil {
			return err
		}
		if user.Spec.Authentication.Type == v1alpha1.UserExternal {
			return errors.New("a LogUser of type External has no credentials to rotate")
		}
		if from := user.Spec.Authentication.PasswordFrom; from != nil {
			return fmt.Errorf("the operator does not rotate LogUser %s: its password is that of "+
				"spec.authentication.passwordFrom: change key %s of Secret %s", user.Name, from.Key,
				from.Name)
		}
		steps := []string{fmt.Sprintf("set annotation %s of LogUser %s: the operator writes new "+
			"credentials to Secret %s", v1alpha1.AnnotationRotate, user.Name,
			v1alpha1.UserSecretName(user.Name))}
		if user.Spec.Authentication.Type == v1alpha1.UserScram {
			steps = append(steps, fmt.Sprintf("the previous password remains valid for %s",
				v1alpha1.PreviousPasswordLifetime))
		}
		if confirmed, err := consent.confirm(s, steps...); !confirmed {
			return err
		}
		if err := annotate(ctx, s, user, v1alpha1.AnnotationRotate, stamp()); err != nil {
			return err
		}
		return consent.done(s, steps, "LogUser "+user.Name+": requested")
	})
	return cmd
}

// stamp returns a new value for an annotation in which each value is a request.
func stamp() string { return time.Now().UTC().Format("20060102T150405.000Z") }
