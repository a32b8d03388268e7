package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Expand returns the files that an argument of --data names: a file, those in a directory, or those that match a
// pattern, in the order of their names; none if there is no such file and the argument is no pattern. Names that begin
// with . or _ are left out, as Spark and Arrow do, unless the pattern begins with the same character. What is no
// regular file is an error, since the rows in it would be missing.
func Expand(path string) (paths []string, err error) {
	info, err := os.Stat(path)
	isDirectory := err == nil && info.IsDir()
	switch {
	case isDirectory:
		entries, err := os.ReadDir(path)
		if err != nil {
			return nil, err
		}
		for _, e := range entries {
			paths = append(paths, filepath.Join(path, e.Name()))
		}
	case err == nil:
		return []string{path}, nil
	case !errors.Is(err, fs.ErrNotExist):
		return nil, err
	case !strings.ContainsAny(path, "*?["):
		return nil, nil
	default:
		if paths, err = filepath.Glob(path); err != nil {
			return nil, fmt.Errorf("%s is no pattern of files: close the [, or write a file that has it in its name as [[]",
				path)
		}
	}
	found := len(paths)
	paths = slices.DeleteFunc(paths, func(p string) bool {
		name := filepath.Base(p)
		return strings.ContainsRune("._", rune(name[0])) && (isDirectory || filepath.Base(path)[0] != name[0])
	})
	if len(paths) == 0 {
		hidden := ""
		if found > 0 {
			hidden = " whose name does not begin with . or _"
		}
		if isDirectory {
			return nil, fmt.Errorf("the directory %s has no file%s: name one with files of rows", path, hidden)
		}
		return nil, fmt.Errorf("no file in %s matches the pattern %s%s: name a directory or files that exist",
			filepath.Dir(path), filepath.Base(path), hidden)
	}
	links := map[string]string{}
	for _, p := range paths {
		real, err := filepath.EvalSymlinks(p)
		if err != nil {
			return nil, err
		}
		info, err := os.Stat(real)
		if err != nil {
			return nil, err
		}
		if !info.Mode().IsRegular() {
			return nil, fmt.Errorf("%s is no regular file, and would be read with those next to it: name a pattern that does "+
				"not match it", p)
		}
		if other := links[real]; other != "" {
			return nil, fmt.Errorf("%s and %s are the same file: name the files without the link", other, p)
		}
		links[real] = p
	}
	return paths, nil
}
