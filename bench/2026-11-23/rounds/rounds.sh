# BEFORE and AFTER: folders with hawser and hawser-lab of the two builds.
mkdir -p "${OUT:?}"; N=${AFTER:?}; B=${BEFORE:?}
for r in 1 2 3 4 5; do
  for w in before after; do
    [ $w = before ] && D=$B || D=$N
    timeout 170 $D/hawser-lab unshaped --size 1GB --repeat 3 --only library,hawser --hawser $D/hawser > "${OUT:?}"/unshaped-$w-$r.txt 2>"${OUT:?}"/err
    timeout 170 $N/hawser-lab crowd --transport sctp --clients 200 --size 3MB --repeat 1 --hawser $D/hawser > "${OUT:?}"/crowd-$w-$r.txt 2>"${OUT:?}"/err2
  done
done
echo finished > "${OUT:?}"/done
