// Package similarity learns the similarities of rows that LEnewS and its kin embed.
package similarity
