-- Notes that runners of version $1 begin to work, unless others do already.
SELECT /* schema */_note_deploy($1) AS noted
