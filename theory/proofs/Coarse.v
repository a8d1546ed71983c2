(* Theorem 4.1 with the half diameter of the tokens in place of a norm, and with the root of the
   sum of squares over heads in place of the sum. *)
From mathcomp Require Import all_ssreflect ssralg ssrnum matrix zmodp.
From mathcomp Require Import mathcomp_extra.
From mathcomp Require Import ring.
From mathcomp Require Import boolp reals classical_sets functions topology normedtype derive.
From AttentionSensitivity Require Import Base Geometry Theta DiffTools MHA Attention OpNorm.
From AttentionSensitivity Require Import LNProducts SpectralMax Collected Layers Attended.
From AttentionSensitivity Require Import RowMove TokenAttention.
Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.
Import Order.TTheory GRing.Theory Num.Theory.
Import numFieldNormedType.Exports.
Local Open Scope ring_scope.

(* Regrouping of a head's term; `ring` fails among the structures of analysis. *)
Lemma head_term_eq (R : fieldType) (t u s q k v r b : R) :
  t * (u * s)^-1 * (k * q * r + k * (q * b)) * (v * r) =
  t / u * (r * (r + b) / s * q * k * v).
Proof. by rewrite invfM; ring. Qed.

Section Diameters.
Variable R : rcfType.

(* A bound on the half diameter from one on all distances. *)
Lemma half_diam_le n d (P : pred 'I_n) (v : 'I_n -> 'rV[R]_d) c : 0 <= c ->
  (forall j l, P j -> P l -> norm2 (v j - v l) <= 2%:R * c) -> half_diam P v <= c.
Proof.
move=> c0 vc; rewrite ler_pdivr_mulr ?ltr0n // mulrC.
by apply: bigmax_le => [|j Pj]; [rewrite mulr_ge0 ?ler0n |
  apply: bigmax_le => [|l Pl]; [rewrite mulr_ge0 ?ler0n | exact: vc]].
Qed.

(* The half diameter of the tokens: at most their distance from any one vector, in particular their
   largest norm. *)
Definition spread m d (U : 'M[R]_(m, d)) : R := half_diam predT (fun i => row i U).

(* It is nonnegative. *)
Lemma spread_ge0 m d (U : 'M[R]_(m, d)) : 0 <= spread U.
Proof. exact: half_diam_ge0. Qed.

(* It is at most the largest distance of a token from c. *)
Lemma spread_centre m d (U : 'M[R]_(m, d)) (c : 'rV[R]_d) :
  spread U <= \big[Num.max/0]_i norm2 (row i U - c).
Proof.
apply: half_diam_le => [|j l _ _]; first exact: bigmax0_ge0.
rewrite (_ : row j U - row l U = (row j U - c) + (c - row l U)); last by rewrite addrA subrK.
apply: le_trans (norm2D _ _) _; rewrite (norm2B c) mulrDl mul1r.
by apply: ler_add; exact: (bigmax0_ge (fun i => norm2 (row i U - c))).
Qed.

(* It is at most the largest norm. *)
Lemma spread_le m d (U : 'M[R]_(m, d)) : spread U <= ninf2 U.
Proof.
apply: le_trans (spread_centre U 0) _; apply: bigmax0_le => [|i]; first exact: ninf2_ge0.
by rewrite subr0 norm2_row_le.
Qed.

(* Tokens whose inner products are large lie close together. *)
Lemma spread_direction m d (U : 'M[R]_(m.+1, d)) s :
  (forall i j, s * ninf2 U ^+ 2 <= dot (row i U) (row j U)) ->
  spread U ^+ 2 <= (1 - s) / 2%:R * ninf2 U ^+ 2.
Proof.
move=> sU; have [i iE] : exists i, norm2 (row i U) = ninf2 U.
  by apply: bigmax0_attained (norm2_ge0 (row 0 U)).
have s1 : 0 <= (1 - s) / 2%:R * ninf2 U ^+ 2.
  rewrite mulrAC divr_ge0 ?ler0n // mulrBl mul1r subr_ge0.
  by apply: le_trans (sU i i) _; rewrite -norm2_sqr iE.
rewrite -[leRHS]sqr_sqrtr // ler_sqr ?nnegrE ?sqrtr_ge0 ?spread_ge0 //.
apply: half_diam_le => [|j l _ _]; first exact: sqrtr_ge0.
apply: norm2_le; first by rewrite mulr_ge0 ?ler0n ?sqrtr_ge0.
rewrite exprMn sqr_sqrtr // dotBl !dotBr (dotC (row l U) (row j U)).
have le a : dot (row a U) (row a U) <= ninf2 U ^+ 2.
  by rewrite -norm2_sqr ler_sqr ?nnegrE ?norm2_ge0 ?ninf2_ge0 ?norm2_row_le.
apply: (@le_by_diff _ ((ninf2 U ^+ 2 - dot (row j U) (row j U)) +
  (ninf2 U ^+ 2 - dot (row l U) (row l U)) +
  2%:R * (dot (row j U) (row l U) - s * ninf2 U ^+ 2))); first by field.
by apply: addr_ge0; [apply: addr_ge0; rewrite subr_ge0 le |
  apply: mulr_ge0; [exact: ler0n | rewrite subr_ge0 sU]].
Qed.

End Diameters.

(* The root of a sum of squares against the sum. *)
Section Roots.
Variables (R : rcfType) (H : nat) (t : 'I_H -> R).
Hypothesis t0 : forall h, 0 <= t h.

(* The root is at most the sum ... *)
Lemma root_le_sum : Num.sqrt (\sum_h t h ^+ 2) <= \sum_h t h.
Proof.
have s0 : 0 <= \sum_h t h by apply: sumr_ge0.
by rewrite -[leRHS]ger0_norm // -sqrtr_sqr ler_wsqrtr // sum_sqr_le.
Qed.

(* ... and below it where two summands are positive. *)
Lemma root_lt_sum g h : g != h -> 0 < t g -> 0 < t h -> Num.sqrt (\sum_h t h ^+ 2) < \sum_h t h.
Proof.
move=> gh tg th; have le i : t i <= \sum_h t h by rewrite (bigD1 i) //= ler_addl sumr_ge0.
have s0 : 0 < \sum_h t h by exact: lt_le_trans (le g).
rewrite -[ltRHS]ger0_norm ?(ltW s0) // -sqrtr_sqr ltr_sqrt ?exprn_gt0 //.
rewrite [ltRHS]expr2 mulr_suml (bigD1 g) // [ltRHS](bigD1 g) //= ltr_le_add //.
  rewrite expr2 ltr_pmul2l // (bigD1 g) //= ltr_addl (bigD1 h) 1?eq_sym //=.
  by rewrite ltr_paddr // sumr_ge0.
by apply: ler_sum => i _; rewrite expr2 ler_wpmul2l.
Qed.

(* The sum is at most sqrt(H) times the root. *)
Lemma sum_le_root : \sum_h t h <= Num.sqrt H%:R * Num.sqrt (\sum_h t h ^+ 2).
Proof.
have s0 : 0 <= \sum_h t h by apply: sumr_ge0.
rewrite -sqrtrM ?ler0n // -[leLHS]ger0_norm // -sqrtr_sqr ler_wsqrtr //.
have := cauchy (ones H) (\row_h t h); rewrite dot_ones; congr (_ ^+ 2 <= _ * _).
- by apply: eq_bigr => h _; rewrite mxE.
- by rewrite dot_ones (eq_bigr (fun=> 1)) => [|h _]; rewrite ?mxE // sum_const mulr1.
- by apply: eq_bigr => h _; rewrite mxE expr2.
Qed.

End Roots.

Section Attention.
Variable R : realType.
Variables (H L d k n : nat).
Variables (WQ WK : 'I_H -> 'M[R]_(d.+1, k)) (WV : 'I_H -> 'M[R]_(d.+1, n)).
Variable WO : 'I_H -> 'M[R]_(n, d.+1).
Variables (tau : R) (visible : 'I_L.+1 -> 'I_L.+1 -> bool).
Hypothesis some_visible : forall i, exists j, visible i j.
Hypothesis tau0 : 0 < tau.
Implicit Types (U X : 'M[R]_(L.+1, d.+1)).

Local Notation F := (mha WQ WK WV WO tau visible).
Local Notation A := (attention WQ WK tau visible).
Local Notation norm := (@ninfrms R L.+1 d.+1).
Local Notation nO := (spectral (\mxcol_h WO h)).

(* What head h adds, with b in place of 2 B^2. *)
Definition head_term U b h : R := spectral (WV h) + theta_head (A h U) / tau *
  (b / Num.sqrt k%:R * spectral (WQ h) * spectral (WK h) * spectral (WV h)).

(* A term is nonnegative, and grows with b. *)
Lemma head_term_ge0 U b h : 0 <= b -> 0 <= head_term U b h.
Proof.
move=> b0; rewrite /head_term addr_ge0 ?spectral_ge0 // mulr_ge0 //.
  by rewrite divr_ge0 ?theta_head_ge0 // ltW.
by rewrite !mulr_ge0 ?spectral_ge0 ?invr_ge0 ?sqrtr_ge0.
Qed.

Lemma head_term_mono U b c h : b <= c -> head_term U b h <= head_term U c h.
Proof.
move=> bc; rewrite ler_add2l ler_wpmul2l ?divr_ge0 ?theta_head_ge0 ?(ltW tau0) //.
by rewrite !ler_wpmul2r ?spectral_ge0 ?invr_ge0 ?sqrtr_ge0.
Qed.

(* The transpose has the same norm bound. *)
Lemma spectral_tr_le a b (W : 'M[R]_(a, b)) x : norm2 (x *m W^T) <= spectral W * norm2 x.
Proof. by have [_ Wc] := spectral_le_tr (spectral_bound W); exact: Wc. Qed.

(* B in both notations. *)
Lemma ninf2_root U : ninfrms U * Num.sqrt d.+1%:R = ninf2 U.
Proof. by rewrite ninfrmsE divfK // gt_eqF ?sqrt_natr_gt0. Qed.

(* The parts of the gauge-fixed bound. *)
Lemma query_half h U i : half_diam (visible i)
  (fun j => row j U *m WK h *m (WQ h)^T) <= spectral (WK h) * spectral (WQ h) * spread U.
Proof.
apply: half_diam_le => [|j l _ _];
  first by do ?[exact: spread_ge0 | exact: spectral_ge0 | apply: mulr_ge0].
rewrite -!mulmxBl; apply: le_trans (spectral_tr_le _ _) _.
apply: le_trans (ler_wpmul2l (spectral_ge0 _) (spectral_le _ _)) _.
rewrite mulrA [X in X * _]mulrC mulrCA ler_wpmul2l ?mulr_ge0 ?spectral_ge0 //.
exact: (half_diam_ge (P := predT) (fun j => row j U)).
Qed.

(* The values' half diameter. *)
Lemma value_half h U i :
  half_diam (visible i) (token_value WV (fun=> 0) h U) <= spectral (WV h) * spread U.
Proof.
apply: half_diam_le => [|j l _ _];
  first by do ?[exact: spread_ge0 | exact: spectral_ge0 | apply: mulr_ge0].
rewrite /token_value !addr0 -mulmxBl; apply: le_trans (spectral_le _ _) _.
rewrite mulrCA ler_wpmul2l ?spectral_ge0 //.
exact: (half_diam_ge (P := predT) (fun j => row j U)).
Qed.

(* The keys' gradients. *)
Lemma key_half h U i : two_largest (visible i) (fun j => norm2 (row i U *m WQ h *m (WK h)^T)) <=
  spectral (WK h) * (spectral (WQ h) * ninf2 U).
Proof.
apply: le_trans (two_largest_le _ _) _; apply: bigmax_le => [|j _].
  by rewrite !mulr_ge0 ?spectral_ge0 ?ninf2_ge0.
apply: le_trans (spectral_tr_le _ _) _; rewrite ler_wpmul2l ?spectral_ge0 //.
by apply: le_trans (spectral_le _ _) _; rewrite ler_wpmul2l ?spectral_ge0 ?norm2_row_le.
Qed.

(* Theorem 4.1 with r (r + B) in place of 2 B^2 and the root of the sum of squares. *)
Theorem coarse_root U (b := spread U * (spread U + ninf2 U)) :
  opnorm_le norm norm ('d F U) (nO * Num.sqrt (\sum_h head_term U b h ^+ 2)) /\
  opnorm norm norm ('d F U) <= nO * Num.sqrt (\sum_h head_term U b h ^+ 2).
Proof.
have kappa0 : 0 <= (tau * Num.sqrt k%:R)^-1 by rewrite invr_ge0 mulr_ge0 ?sqrtr_ge0 ?ltW.
have dq h i : is_diffm (row i U) (linear_map WQ h (0 : 'I_L.+1)) (fun x => x *m WQ h).
  exact: linear_map_diff.
have dk h i : is_diffm (row i U) (linear_map WK h (0 : 'I_L.+1)) (fun x => x *m WK h).
  exact: linear_map_diff.
have [_ le _] := gauge_fixed (E := fun h _ => WQ h) (F := fun h _ => WK h) WV (fun=> 0) WO 0
  kappa0 (fun _ => some_visible) dq dk.
move: le; rewrite -paper_mha => -[g0 le].
have bound : gauge_fixed_bound (linear_map WQ) (linear_map WK) WV (fun=> 0) WO
    (tau * Num.sqrt k%:R)^-1 (fun=> visible) U (fun h _ => WQ h) (fun h _ => WK h)
    (@two_largest R L.+1) <= nO * Num.sqrt (\sum_h head_term U b h ^+ 2).
  apply: ler_wpmul2l (spectral_ge0 _) _ _ _; apply: bigmax0_le => [|i]; first exact: sqrtr_ge0.
  rewrite ler_wsqrtr //; apply: ler_sum => h _.
  have th := theta_ge0 (row i (A h U)).
  have hv := half_diam_ge0 (visible i) (token_value WV (fun=> 0) h U).
  have hq := half_diam_ge0 (visible i) (fun j => row j U *m WK h *m (WQ h)^T).
  have hk := two_largest_ge0 (visible i) (fun j => norm2 (row i U *m WQ h *m (WK h)^T)).
  rewrite -paper_weights ler_sqr ?nnegrE.
  - rewrite ler_add2l -head_term_eq; apply: ler_pmul hv _ _ => //.
    + exact: mulr_ge0 (mulr_ge0 th kappa0) (addr_ge0 hq hk).
    + apply: ler_pmul; [exact: mulr_ge0 th kappa0 | exact: addr_ge0 hq hk | |].
        by rewrite ler_wpmul2r // (bigmax0_ge (fun i => theta (row i (A h U)))).
      by rewrite ler_add // ?query_half ?key_half.
    + exact: value_half.
  - exact: addr_ge0 (spectral_ge0 _) (mulr_ge0 (mulr_ge0 (mulr_ge0 th kappa0) (addr_ge0 hq hk)) hv).
  - by apply: head_term_ge0; exact: mulr_ge0 (spread_ge0 _) (addr_ge0 (spread_ge0 _) (ninf2_ge0 _)).
have le' : opnorm_le norm norm ('d F U) (nO * Num.sqrt (\sum_h head_term U b h ^+ 2)).
  split=> [|X]; first exact: le_trans g0 bound.
  by apply: le_trans (le X) _; rewrite ler_wpmul2r ?ninfrms_ge0.
by split=> //; exact: lambda_le.
Qed.

(* r (r + B) is at most 2 B^2. *)
Lemma coarse_le U : spread U * (spread U + ninf2 U) <= 2%:R * ninf2 U ^+ 2.
Proof.
have r0 := spread_ge0 U; have rB := spread_le U; have B0 := ninf2_ge0 U.
rewrite (_ : 2%:R * _ = ninf2 U * (ninf2 U + ninf2 U));
  last by rewrite -mulr2n expr2 mulr_natl mulrnAr.
by apply: ler_pmul; rewrite ?addr_ge0 // ler_add2r.
Qed.

(* The sum of the coarse terms is a bound as well, and at most that of Theorem 4.1. *)
Theorem coarse_sum U (bound := fun b => nO * \sum_h head_term U b h)
    (b := spread U * (spread U + ninf2 U)) :
  [/\ opnorm_le norm norm ('d F U) (bound b), opnorm norm norm ('d F U) <= bound b &
      bound b <= bound (2%:R * ninf2 U ^+ 2)].
Proof.
have b0 : 0 <= b by exact: mulr_ge0 (spread_ge0 _) (addr_ge0 (spread_ge0 _) (ninf2_ge0 _)).
have [[g0 le] _] := coarse_root U.
have rs : nO * Num.sqrt (\sum_h head_term U b h ^+ 2) <= bound b.
  by apply: ler_wpmul2l (spectral_ge0 _) _ _ _; apply: root_le_sum => h; exact: head_term_ge0.
have le' : opnorm_le norm norm ('d F U) (bound b).
  split=> [|X]; first exact: le_trans g0 rs.
  by apply: le_trans (le X) _; rewrite ler_wpmul2r ?ninfrms_ge0.
split=> //; first exact: lambda_le.
apply: ler_wpmul2l (spectral_ge0 _) _ _ _; apply: ler_sum => h _.
by apply: head_term_mono; exact: coarse_le.
Qed.

(* The root of the sum of the squares of Theorem 4.1's terms. *)
Theorem heads_root U (t := head_term U (2%:R * ninf2 U ^+ 2)) :
  opnorm_le norm norm ('d F U) (nO * Num.sqrt (\sum_h t h ^+ 2)) /\
  opnorm norm norm ('d F U) <= nO * Num.sqrt (\sum_h t h ^+ 2).
Proof.
have [[g0 le] _] := coarse_root U; set b := spread U * _ in g0 le.
have b0 : 0 <= b by exact: mulr_ge0 (spread_ge0 _) (addr_ge0 (spread_ge0 _) (ninf2_ge0 _)).
have step : nO * Num.sqrt (\sum_h head_term U b h ^+ 2) <= nO * Num.sqrt (\sum_h t h ^+ 2).
  apply: ler_wpmul2l (spectral_ge0 _) _ _ _; rewrite ler_wsqrtr //; apply: ler_sum => h _.
  have b2 : 0 <= 2%:R * ninf2 U ^+ 2 by apply: mulr_ge0; [exact: ler0n | exact: sqr_ge0].
  rewrite ler_sqr ?nnegrE; [|exact: head_term_ge0 b0|exact: head_term_ge0 b2].
  by apply: head_term_mono; exact: coarse_le.
have le' : opnorm_le norm norm ('d F U) (nO * Num.sqrt (\sum_h t h ^+ 2)).
  split=> [|X]; first exact: le_trans g0 step.
  by apply: le_trans (le X) _; rewrite ler_wpmul2r ?ninfrms_ge0.
by split=> //; exact: lambda_le.
Qed.

(* The sum of the terms is not attained where two of them are nonzero. *)
Theorem heads_never U g h (t := head_term U (2%:R * ninf2 U ^+ 2)) : g != h ->
  nO * t g != 0 -> nO * t h != 0 -> opnorm norm norm ('d F U) < nO * \sum_h t h.
Proof.
have b2 : 0 <= 2%:R * ninf2 U ^+ 2 by apply: mulr_ge0; [exact: ler0n | exact: sqr_ge0].
have t0 i : 0 <= t i by exact: head_term_ge0.
move=> gh; rewrite !mulf_eq0 !negb_or => /andP[O0 tg] /andP[_ th].
have [_ le] := heads_root U; apply: le_lt_trans le _.
have O1 : 0 < nO by rewrite lt_def O0 spectral_ge0.
by rewrite ltr_pmul2l // (root_lt_sum t0 gh) // lt_def ?tg ?th t0.
Qed.

End Attention.

(* The supremum bounds every value. *)
Lemma lambda_is (R : realType) L d (f : {linear 'M[R]_(L, d.+1) -> 'M[R]_(L, d.+1)}) c :
  opnorm_le (@ninfrms R L d.+1) (@ninfrms R L d.+1) f c ->
  opnorm_le (@ninfrms R L d.+1) (@ninfrms R L d.+1) f
    (opnorm (@ninfrms R L d.+1) (@ninfrms R L d.+1) f).
Proof.
have [_ NZ _] := ninfrms_norm R L d; move=> fc.
suff [] : is_opnorm (@ninfrms R L d.+1) (@ninfrms R L d.+1) f
    (opnorm (@ninfrms R L d.+1) (@ninfrms R L d.+1) f) by [].
apply: (opnorm_is_opnorm _ _ _ _ _ fc).
- by move=> x; exact: ninfrms_ge0.
- exact: NZ.
- by move=> x; exact: ninfrms_ge0.
- exact: NZ.
- by move=> a x; exact: linearZ.
Qed.

(* H equal heads with W^O_h a multiple of an isometry, at U = 0: the root is attained. *)
Section EqualHeads.
Variables (R : realType) (H L d k n : nat).
Variables (WQ WK : 'M[R]_(d.+1, k)) (WV : 'M[R]_(d.+1, n)) (WO : 'M[R]_(n, d.+1)) (c : R).
Variables (tau : R) (visible : 'I_L.+1 -> 'I_L.+1 -> bool).
Hypothesis some_visible : forall i, exists j, visible i j.
Hypothesis tau0 : 0 < tau.
Hypotheses (c0 : 0 <= c) (WOc : WO *m WO^T = (c ^+ 2)%:M).

Local Notation F :=
  (mha (fun _ : 'I_H => WQ) (fun=> WK) (fun=> WV) (fun=> WO) tau visible).
Local Notation norm := (@ninfrms R L.+1 d.+1).
Local Notation nO := (spectral (\mxcol_(h < H) WO)).

(* W^O_h multiplies norms by c. *)
Lemma isometry_norm (z : 'rV[R]_n) : norm2 (z *m WO) = c * norm2 z.
Proof.
rewrite /norm2 dot_mulr -mulmxA WOc mul_mx_scalar dotZr sqrtrM ?sqr_ge0 // sqrtr_sqr.
by rewrite ger0_norm.
Qed.

(* The stacked projection has norm at most c sqrt(H). *)
Lemma equal_output_le : nO <= c * Num.sqrt H%:R.
Proof.
have [_ least] := spectral_is_opnorm (\mxcol_(h < H) WO).
apply: least; split=> [|x]; first by rewrite mulr_ge0 ?sqrtr_ge0.
rewrite -(submxrowK x) mul_mxrow_mxcol -mulmx_suml isometry_norm -mulrA ler_wpmul2l //.
rewrite norm2_mxrow; apply: le_trans (norm2_sum _ _) _.
apply: le_trans (sum_le_root (fun h => norm2_ge0 (submxrow x h))) _.
rewrite ler_wpmul2l ?sqrtr_ge0 // ler_wsqrtr //; apply: ler_sum => h _.
by rewrite norm2_sqr.
Qed.

(* The norm is the root form of the bound, and the sum form is sqrt(H) times it. *)
Theorem equal_heads
    (t := head_term (fun _ : 'I_H => WQ) (fun=> WK) (fun=> WV) tau visible
       (0 : 'M[R]_(L.+1, d.+1)) (2%:R * ninf2 (0 : 'M[R]_(L.+1, d.+1)) ^+ 2)) :
  opnorm norm norm ('d F 0) = nO * Num.sqrt (\sum_h t h ^+ 2) /\
  (nO * \sum_h t h)%R = Num.sqrt H%:R * opnorm norm norm ('d F 0).
Proof.
have tE h : t h = spectral WV.
  by rewrite /t /head_term ninf2_0 expr0n /= mulr0 !mul0r mulr0 addr0.
have sumE : \sum_h t h = H%:R * spectral WV.
  by rewrite (eq_bigr _ (fun h _ => tE h)) sum_const.
have rootE : Num.sqrt (\sum_h t h ^+ 2) = Num.sqrt H%:R * spectral WV.
  rewrite (eq_bigr (fun=> spectral WV ^+ 2)) => [|h _]; last by rewrite tE.
  by rewrite sum_const sqrtrM ?ler0n // sqrtr_sqr ger0_norm ?spectral_ge0.
have [[op0 le] up] := heads_root (fun _ : 'I_H => WQ) (fun=> WK) (fun=> WV) (fun=> WO)
  some_visible tau0 (0 : 'M[R]_(L.+1, d.+1)).
have hh : Num.sqrt H%:R * Num.sqrt H%:R = H%:R :> R by rewrite -expr2 sqr_sqrtr ?ler0n.
have low : c * H%:R * spectral WV <= opnorm norm norm ('d F 0).
  have [x x1 xV] := spectral_attained WV; pose X : 'M[R]_(L.+1, d.+1) := \matrix_i x.
  have /opnorm_le_rms[_ /(_ X)] := lambda_is (conj op0 le).
  have X1 : ninf2 X = 1.
    apply/eqP; rewrite eq_le; apply/andP; split.
      by apply: ninf2_le ler01 _ => i; rewrite rowK x1.
    by rewrite -x1; apply: le_trans (norm2_row_le X 0); rewrite rowK.
  rewrite X1 mulr1 (@diff_val _ _ _ _ _ _ _ (mha_differential _ _ _ _ tau some_visible 0)).
  apply: le_trans; apply: le_trans (norm2_row_le _ 0).
  have -> : row 0 (mha_diff (fun _ : 'I_H => WQ) (fun=> WK) (fun=> WV) (fun=> WO) tau visible 0 X)
      = H%:R *: (x *m WV *m WO).
    rewrite /mha_diff /dmha linear_sum /= (eq_bigr (fun=> x *m WV *m WO)) => [|h _].
      by rewrite sumr_const card_ord scaler_nat.
    rewrite row_mul; congr (_ *m _); rewrite /dhead mul0mx mulmx0 addr0 row_mix.
    under eq_bigr do rewrite row_mul rowK.
    rewrite -scaler_suml; have [_ ->] := attention_stochastic (fun _ : 'I_H => WQ) (fun=> WK) tau
      some_visible h 0 0.
    by rewrite scale1r.
  rewrite norm2Z ger0_norm ?ler0n // isometry_norm xV.
  by rewrite mulrCA mulrA.
have nO_le := equal_output_le.
have opE : opnorm norm norm ('d F 0) = nO * Num.sqrt (\sum_h t h ^+ 2).
  apply/eqP; rewrite eq_le up /=; apply: le_trans low; rewrite rootE mulrA.
  rewrite ler_wpmul2r ?spectral_ge0 // -[X in c * X]hh mulrA.
  by rewrite ler_wpmul2r ?sqrtr_ge0.
split=> //; rewrite opE rootE sumE -[X in nO * (X * _)]hh.
by rewrite [RHS]mulrCA -mulrA.
Qed.

End EqualHeads.
