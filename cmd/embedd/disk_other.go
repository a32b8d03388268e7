//go:build !(darwin || freebsd || linux)

package main

import "errors"

func diskFree(string) (uint64, error) { return 0, errors.ErrUnsupported }
